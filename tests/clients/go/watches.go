// Watches one collection many times over one HTTP/2 connection, as the informers of a Go program do.
//
// Each watch resumes from the last resourceVersion that it has seen, for as long as the program runs. Every line of
// standard output is a JSON object: a watch that began (with its protocol and its connection) or an event.
// The program uses the standard library only, whose HTTP/2 client is the one inside kubectl and client-go.
package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptrace"
	"os"
	"sync"
	"time"
)

// Line is what the test reads: Proto and Connection of a watch that began, or Type, Name and Text of an event.
type Line struct {
	Watch      int
	From       string `json:",omitempty"`
	Proto      string `json:",omitempty"`
	Connection string `json:",omitempty"`
	Type       string `json:",omitempty"`
	Name       string `json:",omitempty"`
	Text       string `json:",omitempty"`
}

// Event is the part of a watch event that the program needs.
type Event struct {
	Type   string
	Object struct {
		Metadata struct{ Name, ResourceVersion string }
		Data     struct{ Text string }
	}
}

var output = struct {
	sync.Mutex
	*json.Encoder
}{Encoder: json.NewEncoder(os.Stdout)}

func report(line Line) {
	output.Lock()
	defer output.Unlock()
	if err := output.Encode(line); err != nil {
		log.Fatal(err)
	}
}

func main() {
	server := flag.String("server", "", "address of the server")
	path := flag.String("path", "", "path of the collection")
	count := flag.Int("watches", 10, "number of watches")
	ca := flag.String("ca", "", "file of the server's CA")
	pair := flag.String("pair", "", "file of the client's certificate and key")
	flag.Parse()
	client := &http.Client{Transport: transport(*ca, *pair)}
	from := version(client, *server+*path)
	for watch := 0; watch < *count; watch++ {
		go follow(client, *server+*path, watch, from)
	}
	io.Copy(io.Discard, os.Stdin) // the test ends the program by closing its standard input
}

func transport(ca, pair string) *http.Transport {
	pem, err := os.ReadFile(ca)
	if err != nil {
		log.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	own, err := tls.LoadX509KeyPair(pair, pair)
	if err != nil {
		log.Fatal(err)
	}
	config := &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{own}}
	return &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
}

// version lists the collection and returns the list's resourceVersion.
func version(client *http.Client, url string) string {
	response, err := client.Get(url)
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	var list struct{ Metadata struct{ ResourceVersion string } }
	if err := json.NewDecoder(response.Body).Decode(&list); err != nil {
		log.Fatal(err)
	}
	return list.Metadata.ResourceVersion
}

// follow watches without end. Between two watches it waits a little, because the server may be starting.
func follow(client *http.Client, url string, watch int, from string) {
	for {
		from = once(client, fmt.Sprintf("%s?watch=true&resourceVersion=%s", url, from), watch, from)
		time.Sleep(50 * time.Millisecond)
	}
}

// once watches until the server ends the watch, and returns the version to resume from.
func once(client *http.Client, url string, watch int, from string) string {
	began := Line{Watch: watch, From: from}
	trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		began.Connection = info.Conn.LocalAddr().String()
	}}
	request, err := http.NewRequest("GET", url, nil)
	if err != nil {
		log.Fatal(err)
	}
	response, err := client.Do(request.WithContext(httptrace.WithClientTrace(request.Context(), trace)))
	if err != nil {
		return from // the server is down
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		log.Fatal(response.Status)
	}
	began.Proto = response.Proto
	report(began)
	for lines := bufio.NewReader(response.Body); ; {
		text, err := lines.ReadBytes('\n')
		if err != nil {
			return from
		}
		var event Event
		if err := json.Unmarshal(text, &event); err != nil || event.Type == "ERROR" {
			log.Fatalf("%s: %v", text, err)
		}
		from = event.Object.Metadata.ResourceVersion
		report(Line{Watch: watch, Type: event.Type, Name: event.Object.Metadata.Name, Text: event.Object.Data.Text})
	}
}
