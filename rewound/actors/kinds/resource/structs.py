"""The structs of the resource group as v1 has them, device taint rules as v1beta2.

They are the stored form in all versions: fields that only v1alpha3 had, in 1.31, are among them.
"""

from __future__ import annotations

from msgspec.structs import replace

from rewound.actors.kinds.core.node_selector import NODE_SELECTOR
from rewound.actors.kinds.declaration.meta import (
    CONDITION,
    METADATA,
    TEMPLATE_META,
)
from rewound.actors.kinds.schema.fields import (
    ANY_JSON,
    BOOL,
    INT32,
    INT64,
    QUANTITIES,
    QUANTITY,
    STRING,
    STRINGS,
    TIME,
    Before,
    Field,
    ListOf,
    MapOf,
    Struct,
)

NETWORK_DEVICE_DATA = Struct(
    "resource.v1.NetworkDeviceData",
    Field("interfaceName", STRING, 1),
    Field("ips", STRINGS, 2, list_type="atomic"),
    Field("hardwareAddress", STRING, 3),
)
ALLOCATED_DEVICE_STATUS = Struct(
    "resource.v1.AllocatedDeviceStatus",
    Field("driver", STRING, 1, required=True, always=True),
    Field("pool", STRING, 2, required=True, always=True),
    Field("device", STRING, 3, required=True, always=True),
    Field("shareID", STRING, 7, pointer=True, gate="DRAConsumableCapacity", since="1.34"),
    Field("conditions", ListOf(CONDITION), 4, always=True, list_type="map", list_keys=("type",)),
    Field("data", ANY_JSON, 5, pointer=True),
    Field("networkData", NETWORK_DEVICE_DATA, 6, pointer=True),
)
DEVICE_TOLERATION = Struct(
    "resource.v1.DeviceToleration",
    Field("key", STRING, 1),
    Field("operator", STRING, 2, default="Equal"),
    Field("value", STRING, 3),
    Field("effect", STRING, 4),
    Field("tolerationSeconds", INT64, 5, pointer=True),
)
DEVICE_REQUEST_ALLOCATION_RESULT = Struct(
    "resource.v1.DeviceRequestAllocationResult",
    Field("request", STRING, 1, required=True, always=True),
    Field("driver", STRING, 2, required=True, always=True),
    Field("pool", STRING, 3, required=True, always=True),
    Field("device", STRING, 4, required=True, always=True),
    Field(
        "adminAccess",
        BOOL,
        5,
        pointer=True,
        gate="DRAAdminAccess",
        since="1.32",
        before=(Before("1.34", always=True),),
    ),
    Field("tolerations", ListOf(DEVICE_TOLERATION), 6, list_type="atomic", since="1.33"),
    Field(
        "bindingConditions", STRINGS, 7, list_type="atomic", gate="DRADeviceBindingConditions", since="1.34"
    ),
    Field(
        "bindingFailureConditions",
        STRINGS,
        8,
        list_type="atomic",
        gate="DRADeviceBindingConditions",
        since="1.34",
    ),
    Field("shareID", STRING, 9, pointer=True, gate="DRAConsumableCapacity", since="1.34"),
    Field("consumedCapacity", QUANTITIES, 10, gate="DRAConsumableCapacity", since="1.34"),
)
OPAQUE_DEVICE_CONFIGURATION = Struct(
    "resource.v1.OpaqueDeviceConfiguration",
    Field("driver", STRING, 1, required=True, always=True),
    Field("parameters", ANY_JSON, 2, required=True, always=True),
)
DEVICE_ALLOCATION_CONFIGURATION = Struct(
    "resource.v1.DeviceAllocationConfiguration",
    Field("source", STRING, 1, required=True, always=True),
    Field("requests", STRINGS, 2, list_type="atomic"),
    Field("opaque", OPAQUE_DEVICE_CONFIGURATION, 1, embedded=3, pointer=True),
)
DEVICE_ALLOCATION_RESULT = Struct(
    "resource.v1.DeviceAllocationResult",
    Field("results", ListOf(DEVICE_REQUEST_ALLOCATION_RESULT), 1, list_type="atomic"),
    Field("config", ListOf(DEVICE_ALLOCATION_CONFIGURATION), 2, list_type="atomic"),
)
ALLOCATION_RESULT = Struct(
    "resource.v1.AllocationResult",
    Field("devices", DEVICE_ALLOCATION_RESULT, 1),
    Field("nodeSelector", NODE_SELECTOR, 3, pointer=True),
    Field("controller", STRING, 4, gate="DRAControlPlaneController", until="1.31"),
    Field("allocationTimestamp", TIME, 5, pointer=True, gate="DRADeviceBindingConditions", since="1.34"),
)
CEL_DEVICE_SELECTOR = Struct(
    "resource.v1.CELDeviceSelector",
    Field("expression", STRING, 1, required=True, always=True),
)
CAPACITY_REQUEST_POLICY_RANGE = Struct(
    "resource.v1.CapacityRequestPolicyRange",
    Field("min", QUANTITY, 1, pointer=True, required=True),
    Field("max", QUANTITY, 2, pointer=True),
    Field("step", QUANTITY, 3, pointer=True),
)
CAPACITY_REQUEST_POLICY = Struct(
    "resource.v1.CapacityRequestPolicy",
    Field("default", QUANTITY, 1, pointer=True, always=True),
    Field("validValues", ListOf(QUANTITY), 3, list_type="atomic"),
    Field("validRange", CAPACITY_REQUEST_POLICY_RANGE, 4, pointer=True),
)
CAPACITY_REQUIREMENTS = Struct(
    "resource.v1.CapacityRequirements",
    Field("requests", QUANTITIES, 1),
)
COUNTER = Struct(
    "resource.v1.Counter",
    Field("value", QUANTITY, 1, required=True, always=True),
)
COUNTER_SET = Struct(
    "resource.v1.CounterSet",
    Field("name", STRING, 1, required=True, always=True),
    Field("counters", MapOf(COUNTER), 2, required=True),
)
DEVICE_ATTRIBUTE = Struct(
    "resource.v1.DeviceAttribute",
    Field("int", INT64, 2, pointer=True),
    Field("bool", BOOL, 3, pointer=True),
    Field("string", STRING, 4, pointer=True),
    Field("version", STRING, 5, pointer=True),
    Field("ints", ListOf(INT64), 6, list_type="atomic", gate="DRAListTypeAttributes", since="1.36"),
    Field("bools", ListOf(BOOL), 7, list_type="atomic", gate="DRAListTypeAttributes", since="1.36"),
    Field("strings", STRINGS, 8, list_type="atomic", gate="DRAListTypeAttributes", since="1.36"),
    Field("versions", STRINGS, 9, list_type="atomic", gate="DRAListTypeAttributes", since="1.36"),
)
DEVICE_CAPACITY = Struct(
    "resource.v1.DeviceCapacity",
    Field("value", QUANTITY, 1, required=True, always=True),
    Field(
        "requestPolicy", CAPACITY_REQUEST_POLICY, 2, pointer=True, gate="DRAConsumableCapacity", since="1.34"
    ),
)
DEVICE_COUNTER_CONSUMPTION = Struct(
    "resource.v1.DeviceCounterConsumption",
    Field("counterSet", STRING, 1, required=True, always=True),
    Field("counters", MapOf(COUNTER), 2, required=True),
)
DEVICE_TAINT = Struct(
    "resource.v1.DeviceTaint",
    Field("key", STRING, 1, required=True, always=True),
    Field("value", STRING, 2),
    Field("effect", STRING, 3, required=True, always=True),
    Field("timeAdded", TIME, 4, pointer=True),
)
NODE_ALLOCATABLE_RESOURCE_MAPPING = Struct(
    "resource.v1.NodeAllocatableResourceMapping",
    Field("capacityKey", STRING, 1, pointer=True),
    Field("allocationMultiplier", QUANTITY, 2, pointer=True),
)
DEVICE = Struct(
    "resource.v1.Device",
    Field("name", STRING, 1, required=True, always=True),
    Field("attributes", MapOf(DEVICE_ATTRIBUTE), 2),
    Field("capacity", MapOf(DEVICE_CAPACITY), 3),
    Field(
        "consumesCounters",
        ListOf(DEVICE_COUNTER_CONSUMPTION),
        4,
        list_type="atomic",
        gate="DRAPartitionableDevices",
        since="1.33",
    ),
    Field("nodeName", STRING, 5, pointer=True, gate="DRAPartitionableDevices", since="1.33"),
    Field("nodeSelector", NODE_SELECTOR, 6, pointer=True, gate="DRAPartitionableDevices", since="1.33"),
    Field("allNodes", BOOL, 7, pointer=True, gate="DRAPartitionableDevices", since="1.33"),
    Field("taints", ListOf(DEVICE_TAINT), 8, list_type="atomic", gate="DRADeviceTaints", since="1.33"),
    Field("bindsToNode", BOOL, 9, pointer=True, gate="DRADeviceBindingConditions", since="1.34"),
    Field(
        "bindingConditions", STRINGS, 10, list_type="atomic", gate="DRADeviceBindingConditions", since="1.34"
    ),
    Field(
        "bindingFailureConditions",
        STRINGS,
        11,
        list_type="atomic",
        gate="DRADeviceBindingConditions",
        since="1.34",
    ),
    Field("allowMultipleAllocations", BOOL, 12, pointer=True, gate="DRAConsumableCapacity", since="1.34"),
    Field(
        "nodeAllocatableResourceMappings",
        MapOf(NODE_ALLOCATABLE_RESOURCE_MAPPING),
        13,
        gate="DRANodeAllocatableResources",
        since="1.36",
    ),
)
DEVICE_SELECTOR = Struct(
    "resource.v1.DeviceSelector",
    Field("cel", CEL_DEVICE_SELECTOR, 1, pointer=True),
)
EXACT_DEVICE_REQUEST = Struct(
    "resource.v1.ExactDeviceRequest",
    Field("deviceClassName", STRING, 1, required=True, always=True),
    Field("selectors", ListOf(DEVICE_SELECTOR), 2, list_type="atomic"),
    Field("allocationMode", STRING, 3),
    Field("count", INT64, 4),
    Field(
        "adminAccess",
        BOOL,
        5,
        pointer=True,
        gate="DRAAdminAccess",
        before=(Before("1.32", gate="", pointer=False, default=False),),
    ),
    Field("tolerations", ListOf(DEVICE_TOLERATION), 6, list_type="atomic", since="1.33"),
    Field("capacity", CAPACITY_REQUIREMENTS, 7, pointer=True, gate="DRAConsumableCapacity", since="1.34"),
)
DEVICE_SUB_REQUEST = Struct(
    "resource.v1.DeviceSubRequest",
    Field("name", STRING, 1, required=True, always=True),
    Field("deviceClassName", STRING, 2, required=True, always=True),
    Field("selectors", ListOf(DEVICE_SELECTOR), 3, list_type="atomic"),
    Field("allocationMode", STRING, 4),
    Field("count", INT64, 5),
    Field("tolerations", ListOf(DEVICE_TOLERATION), 6, list_type="atomic"),
    Field("capacity", CAPACITY_REQUIREMENTS, 7, pointer=True, gate="DRAConsumableCapacity", since="1.34"),
)
DEVICE_REQUEST = Struct(
    "resource.v1.DeviceRequest",
    Field("name", STRING, 1, required=True, always=True),
    Field("exactly", EXACT_DEVICE_REQUEST, 2, pointer=True),
    Field(
        "firstAvailable",
        ListOf(DEVICE_SUB_REQUEST),
        3,
        list_type="atomic",
        gate="DRAPrioritizedList",
        since="1.33",
    ),
)
DEVICE_CONSTRAINT = Struct(
    "resource.v1.DeviceConstraint",
    Field("requests", STRINGS, 1, list_type="atomic"),
    Field("matchAttribute", STRING, 2, pointer=True),
    Field("distinctAttribute", STRING, 3, pointer=True, gate="DRAConsumableCapacity", since="1.34"),
)
DEVICE_CLAIM_CONFIGURATION = Struct(
    "resource.v1.DeviceClaimConfiguration",
    Field("requests", STRINGS, 1, list_type="atomic"),
    Field("opaque", OPAQUE_DEVICE_CONFIGURATION, 1, embedded=2, pointer=True),
)
DEVICE_CLAIM = Struct(
    "resource.v1.DeviceClaim",
    Field("requests", ListOf(DEVICE_REQUEST), 1, always=True, list_type="atomic"),
    Field("constraints", ListOf(DEVICE_CONSTRAINT), 2, list_type="atomic"),
    Field("config", ListOf(DEVICE_CLAIM_CONFIGURATION), 3, list_type="atomic"),
)
DEVICE_CLASS_CONFIGURATION = Struct(
    "resource.v1.DeviceClassConfiguration",
    Field("opaque", OPAQUE_DEVICE_CONFIGURATION, 1, embedded=1, pointer=True),
)
DEVICE_CLASS_SPEC = Struct(
    "resource.v1.DeviceClassSpec",
    Field("selectors", ListOf(DEVICE_SELECTOR), 1, list_type="atomic"),
    Field("config", ListOf(DEVICE_CLASS_CONFIGURATION), 2, list_type="atomic"),
    Field("suitableNodes", NODE_SELECTOR, 3, pointer=True, gate="DRAControlPlaneController", until="1.31"),
    Field("extendedResourceName", STRING, 4, pointer=True, gate="DRAExtendedResource", since="1.34"),
)
DEVICE_CLASS = Struct(
    "resource.v1.DeviceClass",
    METADATA,
    Field("spec", DEVICE_CLASS_SPEC, 2, required=True),
)
RESOURCE_CLAIM_SPEC = Struct(
    "resource.v1.ResourceClaimSpec",
    Field("devices", DEVICE_CLAIM, 1),
    Field("controller", STRING, 2, gate="DRAControlPlaneController", until="1.31"),
)
RESOURCE_CLAIM_CONSUMER_REFERENCE = Struct(
    "resource.v1.ResourceClaimConsumerReference",
    Field("apiGroup", STRING, 1),
    Field("resource", STRING, 3, required=True, always=True),
    Field("name", STRING, 4, required=True, always=True),
    Field("uid", STRING, 5, required=True, always=True),
)
RESOURCE_CLAIM_STATUS = Struct(
    "resource.v1.ResourceClaimStatus",
    Field("allocation", ALLOCATION_RESULT, 1, pointer=True),
    Field(
        "reservedFor",
        ListOf(RESOURCE_CLAIM_CONSUMER_REFERENCE),
        2,
        patch="merge",
        merge_key="uid",
        list_type="map",
        list_keys=("uid",),
    ),
    Field("deallocationRequested", BOOL, 3, gate="DRAControlPlaneController", until="1.31"),
    Field(
        "devices",
        ListOf(ALLOCATED_DEVICE_STATUS),
        4,
        list_type="map",
        list_keys=("driver", "device", "pool", "shareID"),
        gate="DRAResourceClaimDeviceStatus",
        since="1.32",
        before=(Before("1.34", list_keys=("driver", "device", "pool")),),
    ),
)
RESOURCE_CLAIM = Struct(
    "resource.v1.ResourceClaim",
    METADATA,
    Field("spec", RESOURCE_CLAIM_SPEC, 2, required=True),
    Field("status", RESOURCE_CLAIM_STATUS, 3),
)
RESOURCE_CLAIM_TEMPLATE_SPEC = Struct(
    "resource.v1.ResourceClaimTemplateSpec",
    Field("metadata", TEMPLATE_META, 1),
    Field("spec", RESOURCE_CLAIM_SPEC, 2, required=True),
)
RESOURCE_CLAIM_TEMPLATE = Struct(
    "resource.v1.ResourceClaimTemplate",
    METADATA,
    Field("spec", RESOURCE_CLAIM_TEMPLATE_SPEC, 2, required=True),
)
RESOURCE_POOL = Struct(
    "resource.v1.ResourcePool",
    Field("name", STRING, 1, required=True, always=True),
    Field("generation", INT64, 2, required=True, always=True),
    Field("resourceSliceCount", INT64, 3, required=True, always=True),
)
RESOURCE_SLICE_SPEC = Struct(
    "resource.v1.ResourceSliceSpec",
    Field("driver", STRING, 1, required=True, always=True),
    Field("pool", RESOURCE_POOL, 2, required=True),
    Field("nodeName", STRING, 3, pointer=True),
    Field("nodeSelector", NODE_SELECTOR, 4, pointer=True),
    Field("allNodes", BOOL, 5, pointer=True),
    Field("devices", ListOf(DEVICE), 6, list_type="atomic", before=(Before("1.35", always=True),)),
    Field("perDeviceNodeSelection", BOOL, 7, pointer=True, gate="DRAPartitionableDevices", since="1.33"),
    Field(
        "sharedCounters",
        ListOf(COUNTER_SET),
        8,
        list_type="atomic",
        gate="DRAPartitionableDevices",
        since="1.33",
    ),
)
RESOURCE_SLICE = Struct(
    "resource.v1.ResourceSlice",
    METADATA,
    Field("spec", RESOURCE_SLICE_SPEC, 2, required=True),
)
DEVICE_TAINT_SELECTOR = Struct(
    "resource.v1beta2.DeviceTaintSelector",
    Field("deviceClassName", STRING, 1, pointer=True, until="1.34"),
    Field("driver", STRING, 2, pointer=True),
    Field("pool", STRING, 3, pointer=True),
    Field("device", STRING, 4, pointer=True),
    Field("selectors", ListOf(DEVICE_SELECTOR), 5, list_type="atomic", until="1.34"),
)
TAINT_OF_A_RULE = Struct("resource.v1beta2.DeviceTaint", *DEVICE_TAINT.fields)
DEVICE_TAINT_RULE_SPEC = Struct(
    "resource.v1beta2.DeviceTaintRuleSpec",
    Field("deviceSelector", DEVICE_TAINT_SELECTOR, 1, pointer=True),
    Field("taint", TAINT_OF_A_RULE, 2, required=True),
)
DEVICE_TAINT_RULE_STATUS = Struct(
    "resource.v1beta2.DeviceTaintRuleStatus",
    Field(
        "conditions",
        ListOf(CONDITION),
        1,
        patch="merge",
        merge_key="type",
        list_type="map",
        list_keys=("type",),
    ),
)
DEVICE_TAINT_RULE = Struct(
    "resource.v1beta2.DeviceTaintRule",
    METADATA,
    Field("spec", DEVICE_TAINT_RULE_SPEC, 2, required=True),
    Field("status", DEVICE_TAINT_RULE_STATUS, 3, since="1.35"),
)

POOL_STATUS = Struct(
    "resource.v1alpha3.PoolStatus",
    Field("driver", STRING, 1, required=True),
    Field("poolName", STRING, 2, required=True),
    Field("generation", INT64, 9, required=True, always=True),
    Field("resourceSliceCount", INT32, 8, pointer=True),
    Field("totalDevices", INT32, 4, pointer=True),
    Field("allocatedDevices", INT32, 5, pointer=True),
    Field("availableDevices", INT32, 6, pointer=True),
    Field("unavailableDevices", INT32, 7, pointer=True),
    Field("nodeName", STRING, 3, pointer=True),
    Field("validationError", STRING, 10, pointer=True),
)
POOL_STATUS_REQUEST_SPEC = Struct(
    "resource.v1alpha3.ResourcePoolStatusRequestSpec",
    Field("driver", STRING, 1, required=True, always=True),
    Field("poolName", STRING, 2, pointer=True),
    Field("limit", INT32, 3, pointer=True, default=100),
)
POOL_STATUS_REQUEST_STATUS = Struct(
    "resource.v1alpha3.ResourcePoolStatusRequestStatus",
    Field("poolCount", INT32, 6, pointer=True, required=True),
    Field("pools", ListOf(POOL_STATUS), 2, list_type="atomic"),
    Field(
        "conditions",
        ListOf(CONDITION),
        3,
        patch="merge",
        merge_key="type",
        list_type="map",
        list_keys=("type",),
    ),
)
POOL_STATUS_REQUEST = Struct(
    "resource.v1alpha3.ResourcePoolStatusRequest",
    replace(METADATA, required=True),
    Field("spec", POOL_STATUS_REQUEST_SPEC, 2, required=True),
    Field("status", POOL_STATUS_REQUEST_STATUS, 3, pointer=True),
)
