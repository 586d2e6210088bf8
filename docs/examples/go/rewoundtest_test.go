package rewoundtest_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"example.com/rewoundtest"
)

const maps = "/api/v1/namespaces/default/configmaps"

type object map[string]any

type list struct{ Items []object }

func configMap(name, color string) object {
	return object{"metadata": object{"name": name}, "data": object{"color": color}}
}

func TestServerIsRestoredAndItsClockMoves(t *testing.T) {
	server := rewoundtest.Start(t)
	check(t, server.Request("POST", maps, configMap("web", "blue"), nil))
	err := server.Request("POST", maps, configMap("web", "red"), nil)
	if err == nil || !strings.Contains(err.Error(), "409 Conflict") {
		t.Errorf("created twice: %v", err)
	}
	check(t, server.Restore())
	check(t, server.Request("POST", maps, configMap("web", "red"), nil))

	event := object{"metadata": object{"name": "e"}, "involvedObject": object{"namespace": "default"}, "reason": "Tested"}
	check(t, server.Request("POST", "/api/v1/namespaces/default/events", event, nil))
	check(t, server.Advance(2*time.Hour))
	var left list
	check(t, server.Request("GET", "/api/v1/namespaces/default/events", nil, &left))
	if len(left.Items) != 0 {
		t.Errorf("events are left: %v", left.Items)
	}
}

// Fails when it is asked to, to show what a failing test prints.
func TestStory(t *testing.T) {
	server := rewoundtest.Start(t)
	check(t, server.Request("POST", maps, configMap("web", "blue"), nil))
	if os.Getenv("FAIL") != "" {
		t.Error("as asked")
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
