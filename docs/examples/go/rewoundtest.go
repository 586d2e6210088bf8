// Package rewoundtest gives Go tests a server: copy this file into a project, it needs the standard library only.
//
//	server := rewoundtest.Start(t, "--flag=--event-ttl=5m")
//	config, err := clientcmd.BuildConfigFromFlags("", server.Kubeconfig)
//
// It runs `rewound dev`, which must be on PATH. The server ends with the test, and with the process however that ends.
// When the test fails, what happened to which object follows in its log, and the journal is saved.
package rewoundtest

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// The shell prints where the server is, then waits: the end of its input is a test that passed, a line one that failed.
const wait = `echo "$KUBECONFIG"; echo "$REWOUND_URL"; read -r failed && exit 1; exit 0`

// Server is a running server. Its clock and its state are those of one test.
type Server struct {
	Kubeconfig string // the path of a kubeconfig file of the administrator
	URL        string // https://127.0.0.1:port
	Client     *http.Client
}

// Start starts a server for a test; flags are those of `rewound dev`.
func Start(t testing.TB, flags ...string) *Server {
	t.Helper()
	command := exec.Command("rewound", append(append([]string{"dev"}, flags...), "--", "sh", "-c", wait)...)
	var printed bytes.Buffer
	command.Stderr = &printed
	input, err := command.StdinPipe()
	must(t, err)
	output, err := command.StdoutPipe()
	must(t, err)
	must(t, command.Start())
	lines := bufio.NewScanner(output)
	server := &Server{}
	for _, field := range []*string{&server.Kubeconfig, &server.URL} {
		if !lines.Scan() {
			_ = command.Wait()
			t.Fatalf("rewound dev did not start a server: %s", printed.String())
		}
		*field = lines.Text()
	}
	t.Cleanup(func() {
		if t.Failed() {
			_, _ = io.WriteString(input, "failed\n")
		}
		_ = input.Close()
		_, _ = io.Copy(io.Discard, output)
		_ = command.Wait()
		if t.Failed() {
			t.Log(printed.String())
		}
	})
	server.Client = client(t, filepath.Dir(server.Kubeconfig))
	return server
}

// Request sends a request with a JSON body, unless that is nil, and decodes the response into result, unless that is nil.
func (s *Server) Request(method, path string, body, result any) error {
	content, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequest(method, s.URL+path, bytes.NewReader(content))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := s.Client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	received, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= 400 {
		err = fmt.Errorf("%s %s: %s: %s", method, path, response.Status, received)
	}
	if err == nil && result != nil {
		err = json.Unmarshal(received, result)
	}
	return err
}

// Advance moves the server's clock, and returns when what is due has happened.
func (s *Server) Advance(by time.Duration) error {
	return s.Request("POST", "/debug/rewound/clock", map[string]any{"advance": by.Seconds()}, nil)
}

// Restore brings all objects back to the state in which the server started.
func (s *Server) Restore() error {
	return s.Request("POST", "/debug/rewound/snapshots/rewound-start/restore", map[string]any{}, nil)
}

func client(t testing.TB, folder string) *http.Client {
	t.Helper()
	pki := filepath.Join(folder, "pki")
	authority, err := os.ReadFile(filepath.Join(pki, "ca.crt"))
	must(t, err)
	pair, err := tls.LoadX509KeyPair(filepath.Join(pki, "admin.crt"), filepath.Join(pki, "admin.key"))
	must(t, err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	settings := &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: settings, ForceAttemptHTTP2: true}}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
