package mailpeer

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawlworks/pawl/conformance/world"
)

const (
	// Domain is the one that mail is taken for. Every address in it exists, but for those below.
	Domain = "example.test"
	// Journal is the account that gets a copy of every mail.
	Journal = "journal@" + Domain
	// Password is that of every account, over SMTP and IMAP. The user name is the whole address.
	Password = "secret"
	// RefusedNow is answered with 450, RefusedForGood with 550.
	RefusedNow, RefusedForGood = "later@" + Domain, "nobody@" + Domain

	startTimeout = 30 * time.Second
	stopTimeout  = 10 * time.Second
)

// ErrUnavailable says that this host cannot run the peers.
var ErrUnavailable = errors.New("mailpeer: this host cannot run Postfix and Dovecot")

// Peer is a running pair of mail servers.
type Peer struct {
	directory string
	smtp      int
	imap      int
	authority []byte
	dovecot   *exec.Cmd
	postfix   *exec.Cmd
}

// Start starts both servers and waits until they answer.
func Start(ctx context.Context) (*Peer, error) {
	for _, binary := range []string{"postfix", "dovecot"} {
		if _, err := exec.LookPath(binary); err != nil {
			return nil, fmt.Errorf("%w: %s is not installed (apt-get install postfix dovecot-imapd dovecot-lmtpd)", ErrUnavailable, binary)
		}
	}
	if os.Getuid() != 0 {
		return nil, fmt.Errorf("%w: both need root", ErrUnavailable)
	}
	// Not a test's directory: the servers' own users must be able to enter it, and socket paths are short.
	directory, err := os.MkdirTemp("", "pawl-mail-")
	if err != nil {
		return nil, fmt.Errorf("mailpeer: %w", err)
	}
	p := &Peer{directory: directory}
	if err := p.start(ctx); err != nil {
		log, _ := os.ReadFile(p.path("mail.log"))
		return nil, errors.Join(fmt.Errorf("mailpeer: %w\n%s", err, log), p.Close())
	}
	return p, nil
}

// StartForTest is Start, with Close at the end of the test.
func StartForTest(t testing.TB) *Peer {
	t.Helper()
	p, err := Start(t.Context())
	if errors.Is(err, ErrUnavailable) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			log, _ := os.ReadFile(p.path("mail.log"))
			t.Logf("the servers' log:\n%s", log)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// SMTPAddr is where mail is taken: in the clear or with STARTTLS, with or without authentication.
func (p *Peer) SMTPAddr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.smtp)) }

// IMAPAddr is where the mailboxes are shown: in the clear or with STARTTLS.
func (p *Peer) IMAPAddr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.imap)) }

// AuthorityPEM is the certificate that a client has to trust.
func (p *Peer) AuthorityPEM() []byte { return p.authority }

// Count returns how many mails are in the INBOX of an account, as files on disk.
func (p *Peer) Count(account string) (int, error) {
	n := 0
	for _, part := range []string{"new", "cur"} {
		entries, err := os.ReadDir(p.path("mail", account, part))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("mailpeer: %w", err)
		}
		n += len(entries)
	}
	return n, nil
}

// AwaitDelivered waits until the queue is empty: every mail that was taken is in its mailbox, or was given up.
func (p *Peer) AwaitDelivered(ctx context.Context) error {
	for {
		out, err := exec.CommandContext(ctx, "postqueue", "-c", p.path("postfix"), "-j").Output()
		if err != nil {
			return fmt.Errorf("mailpeer: list the queue: %w", err)
		}
		if len(strings.TrimSpace(string(out))) == 0 {
			return nil
		}
		if err := pause(ctx); err != nil {
			return fmt.Errorf("mailpeer: the queue is not empty: %w", err)
		}
	}
}

func (p *Peer) path(parts ...string) string {
	return filepath.Join(append([]string{p.directory}, parts...)...)
}

func (p *Peer) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := os.Chmod(p.directory, 0o755); err != nil {
		return err
	}
	lmtp, err := p.choosePorts()
	if err != nil {
		return err
	}
	if err := p.writeCertificate(); err != nil {
		return err
	}
	if err := p.writeConfiguration(lmtp); err != nil {
		return err
	}
	// The servers outlive the call's context; Close ends them.
	p.dovecot = exec.Command("dovecot", "-F", "-c", p.path("dovecot.conf"))
	p.postfix = exec.Command("postfix", "-c", p.path("postfix"), "start-fg")
	for _, server := range []*exec.Cmd{p.dovecot, p.postfix} {
		server.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		output, err := os.OpenFile(p.path("mail.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
		if err != nil {
			return err
		}
		server.Stdout, server.Stderr = output, output
		err = server.Start()
		_ = output.Close() // the server has its own copy
		if err != nil {
			return fmt.Errorf("start %s: %w", server.Path, err)
		}
	}
	for address, greeting := range map[string]string{
		p.SMTPAddr(): "220 ", p.IMAPAddr(): "* OK", net.JoinHostPort("127.0.0.1", strconv.Itoa(lmtp)): "220 ",
	} {
		if err := awaitGreeting(ctx, address, greeting); err != nil {
			return err
		}
	}
	return nil
}

// choosePorts finds free ports. They are free only until they are used: nothing better exists for servers that take
// their ports from a file.
func (p *Peer) choosePorts() (lmtp int, err error) {
	for _, port := range []*int{&p.smtp, &p.imap, &lmtp} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return 0, err
		}
		defer func() { _ = l.Close() }()
		*port = l.Addr().(*net.TCPAddr).Port
	}
	return lmtp, nil
}

func (p *Peer) writeCertificate() error {
	certificate, authority, err := world.Certificate("127.0.0.1", "localhost")
	if err != nil {
		return err
	}
	p.authority = authority
	key, err := x509.MarshalPKCS8PrivateKey(certificate.PrivateKey)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(p.path("cert.pem"), authority, 0o644),
		os.WriteFile(p.path("key.pem"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}), 0o600),
	)
}

func (p *Peer) writeConfiguration(lmtp int) error {
	owner, err := user.Lookup("postfix")
	if err != nil {
		return err
	}
	uid, err := strconv.Atoi(owner.Uid)
	if err != nil {
		return err
	}
	for path, mode := range map[string]os.FileMode{"mail": 0o777, "dovecot": 0o755, "postfix": 0o755, "queue": 0o755, "data": 0o755} {
		if err := os.Mkdir(p.path(path), mode); err != nil {
			return err
		}
		if err := os.Chmod(p.path(path), mode); err != nil { // whatever the umask
			return err
		}
	}
	if err := os.Chown(p.path("data"), uid, -1); err != nil {
		return err
	}
	for path, text := range map[string]string{
		"dovecot.conf":      dovecotConfiguration,
		"postfix/main.cf":   postfixMain,
		"postfix/master.cf": postfixMaster,
	} {
		text = strings.NewReplacer(
			"@DIR@", p.directory, "@SMTP@", strconv.Itoa(p.smtp), "@IMAP@", strconv.Itoa(p.imap), "@LMTP@", strconv.Itoa(lmtp),
			"@DOMAIN@", Domain, "@JOURNAL@", Journal, "@PASSWORD@", Password, "@LATER@", RefusedNow, "@NOBODY@", RefusedForGood,
		).Replace(text)
		if err := os.WriteFile(p.path(path), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func awaitGreeting(ctx context.Context, address, greeting string) error {
	var dialer net.Dialer
	for {
		conn, err := dialer.DialContext(ctx, "tcp", address)
		if err == nil {
			got := make([]byte, len(greeting))
			_ = conn.SetDeadline(time.Now().Add(time.Second))
			_, err = io.ReadFull(conn, got)
			_ = conn.Close()
			if err == nil && string(got) == greeting {
				return nil
			}
		}
		if waited := pause(ctx); waited != nil {
			return fmt.Errorf("%s does not greet (%w): %w", address, err, waited)
		}
	}
}

// pause is the distance of two looks at something that another program changes.
func pause(ctx context.Context) error {
	timer := time.NewTimer(10 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close ends both servers, with all their processes, and removes the directory.
func (p *Peer) Close() error {
	var errs []error
	for _, server := range []*exec.Cmd{p.postfix, p.dovecot} {
		if server == nil || server.Process == nil {
			continue
		}
		errs = append(errs, stop(server))
	}
	if master, err := os.ReadFile(p.path("queue", "pid", "master.pid")); err == nil {
		// start-fg may have left the master in a group of its own.
		if pid, err := strconv.Atoi(strings.TrimSpace(string(master))); err == nil && pid > 1 && p.isMaster(pid) {
			_ = syscall.Kill(pid, syscall.SIGTERM)
		}
	}
	return errors.Join(append(errs, p.remove())...)
}

// isMaster makes sure that the process is the one that was started here: its number could belong to another by now.
func (p *Peer) isMaster(pid int) bool {
	environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return err == nil && strings.Contains(string(environment), p.directory)
}

func (p *Peer) remove() error {
	// A server's last process may still be writing.
	deadline := time.Now().Add(stopTimeout)
	for {
		err := os.RemoveAll(p.directory)
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func stop(server *exec.Cmd) error {
	group := -server.Process.Pid
	_ = syscall.Kill(group, syscall.SIGTERM)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Wait() // its status says nothing: it was told to end
	}()
	timer := time.NewTimer(stopTimeout)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
		_ = syscall.Kill(group, syscall.SIGKILL)
		<-ended
		return fmt.Errorf("mailpeer: %s had to be killed", server.Path)
	}
	_ = syscall.Kill(group, syscall.SIGKILL) // what the server left behind
	return nil
}
