// Command talos-nodes is a fleet of fake Talos nodes on loopback, which speak the real machine API.
//
// It prints one line of JSON when it can be used, keeps its state in a folder, and ends on SIGTERM or SIGINT, or, with
// -until-stdin-closes, when whoever started it is gone.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"hybrid-talos.dev/lab/tools/talos-nodes/internal/apid"
	"hybrid-talos.dev/lab/tools/talos-nodes/internal/control"
	"hybrid-talos.dev/lab/tools/talos-nodes/internal/fleet"
	"hybrid-talos.dev/lab/tools/talos-nodes/internal/kube"
	"hybrid-talos.dev/lab/tools/talos-nodes/internal/machined"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "talos-nodes:", err)
		os.Exit(1)
	}
}

func run() error {
	folder := flag.String("folder", "", "where the fleet keeps its state; it must hold fleet.json, the description of the nodes")
	address := flag.String("control", "127.0.0.1:0", "loopback address of the control API")
	stdin := flag.Bool("until-stdin-closes", false, "end when standard input is closed")
	flag.Parse()

	if *folder == "" {
		return fmt.Errorf("-folder is needed")
	}

	spec, err := fleet.ReadSpec(filepath.Join(*folder, "fleet.json"))
	if err != nil {
		return err
	}

	f, err := fleet.Open(*folder, spec)
	if err != nil {
		return err
	}

	listener, err := net.Listen("tcp", *address)
	if err != nil {
		return err
	}

	if host, _, err := net.SplitHostPort(listener.Addr().String()); err != nil || !net.ParseIP(host).IsLoopback() {
		return fmt.Errorf("-control: %s is no loopback address", *address)
	}

	stop := make(chan struct{})
	server := apid.New(f, machined.Register(f))
	kubernetes := kube.New(f)

	if spec.Balancer != "" {
		if err = kubernetes.Balance(spec.Balancer); err != nil {
			return err
		}
	}

	f.Start(server.Up, server.Down, stop)

	web := &http.Server{Handler: control.Handler(f), ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)

	go func() { failed <- web.Serve(listener) }()

	if err = json.NewEncoder(os.Stdout).Encode(map[string]any{"control": listener.Addr().String(), "pid": os.Getpid()}); err != nil {
		return err
	}

	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)

	if *stdin {
		go func() {
			io.Copy(io.Discard, os.Stdin) //nolint:errcheck // only its end counts
			ended <- syscall.SIGTERM
		}()
	}

	select {
	case err = <-failed:
		return err
	case <-ended:
		close(stop)

		return nil
	}
}
