package machined

import (
	"fmt"
	"strings"
	"time"

	"github.com/siderolabs/talos/pkg/machinery/api/common"
	machineapi "github.com/siderolabs/talos/pkg/machinery/api/machine"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"hybrid-talos.dev/lab/tools/talos-nodes/internal/apid"
)

// Read streams one of the few files that a fake node has.
func (s *Server) Read(in *machineapi.ReadRequest, stream grpc.ServerStreamingServer[common.Data]) error {
	apid.Note(stream.Context(), "path", in.GetPath())

	var (
		text  string
		found = true
	)

	s.fleet.Do(func() {
		switch in.GetPath() {
		case "/proc/sys/kernel/random/boot_id":
			text = s.node.BootID + "\n"
		case "/etc/os-release":
			text = fmt.Sprintf("NAME=\"Talos\"\nID=talos\nVERSION_ID=%s\nPRETTY_NAME=\"Talos (%s)\"\n", s.node.Image.Version, s.node.Image.Version)
		case "/etc/hostname":
			text = s.node.Hostname() + "\n"
		case "/proc/cmdline":
			text = "talos.platform=metal\n"
		case "/proc/uptime":
			up := time.Since(s.node.Started).Seconds()
			text = fmt.Sprintf("%.2f %.2f\n", up, up)
		default:
			found = false
		}
	})

	if !found {
		apid.Unimplemented(stream.Context(), "the fake nodes have no file "+in.GetPath())

		return status.Error(codes.NotFound, noSuchFile(in.GetPath()).Error())
	}

	return stream.Send(&common.Data{Bytes: []byte(text)})
}

// Dmesg streams what happened to the machine, as the fleet's log has it.
func (s *Server) Dmesg(in *machineapi.DmesgRequest, stream grpc.ServerStreamingServer[common.Data]) error {
	sent := 0
	if in.GetFollow() && in.GetTail() {
		entries := s.fleet.Log.After(0)
		sent = len(entries)
	}

	for {
		for _, entry := range s.fleet.Log.After(sent) {
			sent = entry.N

			if entry.Node != s.node.Spec.Name || entry.Kind == "call" || entry.Kind == "answer" {
				continue
			}

			line := fmt.Sprintf("%s: user: warning: [%s]: [talos] %s: %s\n",
				s.node.Spec.Name, entry.Time.Format(time.RFC3339Nano), entry.Kind, entry.Text)
			if err := stream.Send(&common.Data{Bytes: []byte(line)}); err != nil {
				return err
			}
		}

		if !in.GetFollow() {
			return nil
		}

		if wait(stream.Context(), 100*time.Millisecond) != nil {
			return nil //nolint:nilerr // the client went away
		}
	}
}

// Logs streams what a service went through.
func (s *Server) Logs(in *machineapi.LogsRequest, stream grpc.ServerStreamingServer[common.Data]) error {
	var lines []string

	err := s.do(func() error {
		service := s.node.Services[in.GetId()]
		if service == nil {
			return fmt.Errorf("log %q was not registered", in.GetId())
		}

		for _, event := range service.History {
			lines = append(lines, fmt.Sprintf("%s [%s] %s\n", event.GetTs().AsTime().Format(time.RFC3339), event.GetState(), event.GetMsg()))
		}

		return nil
	})
	if err != nil {
		return err
	}

	if tail := int(in.GetTailLines()); tail >= 0 && tail < len(lines) {
		lines = lines[len(lines)-tail:]
	}

	if err = stream.Send(&common.Data{Bytes: []byte(strings.Join(lines, ""))}); err != nil || !in.GetFollow() {
		return err
	}

	<-stream.Context().Done()

	return nil
}
