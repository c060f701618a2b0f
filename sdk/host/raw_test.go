//go:build linux

package host_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/pawlworks/pawl/sdk/host"
	adapterv1 "github.com/pawlworks/pawl/sdk/proto/pawl/adapter/v1"
)

// rawAdapter is an adapter written from docs/writing-an-adapter.md, "Without Go", with neither SDK nor go-plugin. It
// shows that the page is complete, and it can answer what the SDK never would.
type rawAdapter struct {
	adapterv1.UnimplementedAdapterServer
	adapterv1.UnimplementedChannelServer
	over chan struct{}
}

func rawMain(lifeline bool) int {
	if os.Getenv("PAWL_ADAPTER_COOKIE") == "" {
		return 2
	}
	certificate, der, err := rawCertificate()
	if err != nil {
		return 3
	}
	engine := x509.NewCertPool()
	if !engine.AppendCertsFromPEM([]byte(os.Getenv("PLUGIN_CLIENT_CERT"))) {
		return 4
	}
	path := filepath.Join(os.Getenv("PLUGIN_UNIX_SOCKET_DIR"), "raw")
	listener, err := net.Listen("unix", path)
	if err != nil {
		return 5
	}
	server := grpc.NewServer(grpc.MaxRecvMsgSize(33554432), grpc.MaxSendMsgSize(2*33554432), grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{certificate}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: engine,
		MinVersion: tls.VersionTLS12,
	})))
	raw := &rawAdapter{over: make(chan struct{})}
	adapterv1.RegisterAdapterServer(server, raw)
	adapterv1.RegisterChannelServer(server, raw)
	healthy := health.NewServer()
	healthy.SetServingStatus("plugin", grpc_health_v1.HealthCheckResponse_SERVING)
	grpc_health_v1.RegisterHealthServer(server, healthy)
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "plugin.GRPCController", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Shutdown", Handler: func(any, context.Context, func(any) error, grpc.UnaryServerInterceptor) (any, error) {
			close(raw.over)
			return &emptypb.Empty{}, nil
		}}},
	}, raw)
	go func() { _ = server.Serve(listener) }()
	if lifeline {
		go func() {
			var b [1]byte
			_, _ = os.NewFile(3, "lifeline").Read(b[:])
			os.Exit(6)
		}()
	}
	fmt.Printf("1|1|unix|%s|grpc|%s\n", path, base64.RawStdEncoding.EncodeToString(der))
	<-raw.over
	if os.WriteFile(os.Getenv("MARKER"), nil, 0o600) != nil {
		return 7
	}
	return 0
}

func rawCertificate() (tls.Certificate, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"}, NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, der, err
}

func (*rawAdapter) Describe(_ context.Context, r *adapterv1.DescribeRequest) (*adapterv1.DescribeReply, error) {
	return &adapterv1.DescribeReply{CallId: r.GetCall().GetId(), Sheet: &adapterv1.Sheet{Kind: "raw", Version: "1", Begin: true, Replay: 77}}, nil
}

func (*rawAdapter) Configure(_ context.Context, r *adapterv1.ConfigureRequest) (*adapterv1.ConfigureReply, error) {
	return &adapterv1.ConfigureReply{CallId: r.GetCall().GetId()}, nil
}

func (*rawAdapter) Health(_ context.Context, r *adapterv1.HealthRequest) (*adapterv1.HealthReply, error) {
	return &adapterv1.HealthReply{CallId: r.GetCall().GetId(), Ok: true}, nil
}

func (*rawAdapter) Drain(_ context.Context, r *adapterv1.DrainRequest) (*adapterv1.DrainReply, error) {
	return &adapterv1.DrainReply{CallId: r.GetCall().GetId()}, nil
}

func (*rawAdapter) Send(_ context.Context, r *adapterv1.SendRequest) (*adapterv1.SendReply, error) {
	id := r.GetCall().GetId()
	if err := rawBegin(r.GetCall()); err != nil {
		return &adapterv1.SendReply{CallId: id, Result: &adapterv1.SendReply_Failure{Failure: &adapterv1.Failure{
			Kind: adapterv1.FailureKind_FAILURE_KIND_NOT_SENT, Message: err.Error(),
		}}}, nil
	}
	outcome := &adapterv1.Outcome{Kind: adapterv1.OutcomeKind_OUTCOME_KIND_DELIVERED, Evidence: &adapterv1.Evidence{Id: []byte("raw-1")}}
	reply := &adapterv1.SendReply{CallId: id, Begun: true, Result: &adapterv1.SendReply_Outcome{Outcome: outcome}}
	switch {
	case strings.HasSuffix(r.GetIntent().GetEffectKey(), ":other-call"):
		reply.CallId = strings.Repeat("0", 32)
	case strings.HasSuffix(r.GetIntent().GetEffectKey(), ":unknown-outcome"):
		outcome.Kind = 99
	case strings.HasSuffix(r.GetIntent().GetEffectKey(), ":over-the-limit"):
		outcome.Evidence.Detail = make([]byte, 33554432)
	}
	return reply, nil
}

func rawBegin(call *adapterv1.Call) error {
	refuse := func() error {
		lifeline := []unix.PollFd{{Fd: 3, Events: unix.POLLIN}}
		if n, err := unix.Poll(lifeline, 0); n != 0 || err != nil {
			return errors.New("the engine is gone")
		}
		var boot unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot); err != nil {
			return err
		}
		if boot.Nano() >= call.GetNotAfterBootNs() || time.Now().UnixNano() >= call.GetNotAfterWallNs() {
			return errors.New("too late")
		}
		return nil
	}
	if err := refuse(); err != nil {
		return err
	}
	if n, err := unix.Write(4, []byte("begin "+call.GetId()+"\n")); err != nil || n != 39 {
		return fmt.Errorf("begin record: %d bytes, %w", n, err)
	}
	return refuse()
}

func TestAdapterWrittenFromTheGuideAloneWorks(t *testing.T) {
	marker := filepath.Join(t.TempDir(), "ended")
	a, _ := launch(t, "raw", func(o *host.Options) { o.Env["MARKER"] = marker; o.GracePeriod = 20 * time.Second })
	if got := a.Sheet(); got.Kind != "raw" || got.Replay != "never" {
		t.Errorf("sheet %+v: an unknown value must count as the weakest", got)
	}
	if err := a.Health(t.Context()); err != nil {
		t.Error(err)
	}
	for key, want := range map[string]string{
		"raw:plain": "delivered", "raw:other-call": "ambiguous", "raw:unknown-outcome": "ambiguous", "raw:over-the-limit": "ambiguous",
	} {
		one := attempt(time.Minute)
		one.Intent.EffectKey = key
		outcome, err := a.Send(context.Background(), one)
		if got := said(outcome, err); got != want {
			t.Errorf("%s: got %s (%v), want %s", key, got, err, want)
		}
	}
	if err := a.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(marker); err != nil {
		t.Error("the adapter was killed, not ended by its Shutdown")
	}
}
