package receipt_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pawlworks/pawl/receipt"
)

// childKeyFile makes the test binary a process that only makes a key.
const childKeyFile = "PAWL_RECEIPT_TEST_KEY_FILE"

func TestMain(m *testing.M) {
	if path := os.Getenv(childKeyFile); path != "" {
		key, err := receipt.LoadOrCreateKey(path)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Print(key.ID())
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestProcessesThatStartAtOnceShareOneKey(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	path := filepath.Join(folder, "receipt.key")
	const processes = 8
	ids := make([]string, processes)
	var wg sync.WaitGroup
	for i := range processes {
		wg.Go(func() {
			cmd := exec.Command(self)
			cmd.Env = append(os.Environ(), childKeyFile+"="+path)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("process %d: %v: %s", i, err, out)
			}
			ids[i] = string(out)
		})
	}
	wg.Wait()
	key, err := receipt.LoadKey(path)
	if err != nil {
		t.Fatal(err)
	}
	for i, id := range ids {
		if id != key.ID() {
			t.Errorf("process %d has key %s, the file %s", i, id, key.ID())
		}
	}
	left, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	if len(left) != 1 {
		t.Errorf("%d files left in the folder, want the key only", len(left))
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode is %04o, want 0600", info.Mode().Perm())
	}
}

func TestKeyFileOthersMayTouchIsRefusedWithTheFix(t *testing.T) {
	path := filepath.Join(t.TempDir(), "receipt.key")
	if _, err := receipt.LoadOrCreateKey(path); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []fs.FileMode{0o640, 0o604, 0o660, 0o700, 0o610, 0o644} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		for _, load := range []func(string) (receipt.Key, error){receipt.LoadKey, receipt.LoadOrCreateKey} {
			_, err := load(path)
			if err == nil || !strings.Contains(err.Error(), "chmod 600") {
				t.Errorf("mode %04o: %v", mode, err)
			}
		}
	}
	if err := os.Chmod(path, 0o400); err != nil {
		t.Fatal(err)
	}
	if _, err := receipt.LoadKey(path); err != nil {
		t.Errorf("mode 0400: %v", err)
	}
}

func TestFileThatIsNoReceiptKeyIsRefusedAndKept(t *testing.T) {
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(ec)
	if err != nil {
		t.Fatal(err)
	}
	real := filepath.Join(t.TempDir(), "real.key")
	if _, err := receipt.LoadOrCreateKey(real); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(real)
	if err != nil {
		t.Fatal(err)
	}
	public, err := receipt.EncodePublicKey(fixedKey(t, 1).Public())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, text string }{
		{"another algorithm", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))},
		{"another block", string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: der}))},
		{"empty", ""},
		{"endless", strings.Repeat("x", 100_000)},
		{"not PEM", "hello"},
		{"public half", string(public)},
		{"torn", string(good[:len(good)/2])},
		{"torn second key", string(good) + string(good[:len(good)/2])},
		{"two keys", string(good) + string(good)},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "receipt.key")
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := receipt.LoadOrCreateKey(path); err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("error is %v", err)
			}
			if kept, err := os.ReadFile(path); err != nil || string(kept) != c.text {
				t.Error("the file was changed")
			}
		})
	}
	_, err = receipt.LoadKey(filepath.Join(t.TempDir(), "none"))
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
	if _, err := receipt.LoadOrCreateKey(t.TempDir()); err == nil {
		t.Error("a folder was taken for a key")
	}
	if _, err := receipt.LoadOrCreateKey(filepath.Join(t.TempDir(), "no", "folder")); err == nil {
		t.Error("a key was made in a folder that is not there")
	}
}

func TestPrivateKeyIsNeverPrinted(t *testing.T) {
	key := fixedKey(t, 1)
	seed := strings.Repeat("01", 32)
	holder := struct{ inner receipt.Key }{key}
	issuer := newIssuer(t)
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("start", "key", key, "issuer", issuer, "options", receipt.Options{Key: key, Name: "x"})
	asJSON, err := json.Marshal(map[string]any{"key": key})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		fmt.Sprint(key), fmt.Sprintf("%+v %#v %s %x", key, key, key, key), fmt.Sprintf("%v %+v %#v", holder, holder, holder),
		fmt.Sprintf("%v %+v %s", issuer, issuer, issuer), log.String(), string(asJSON),
	} {
		squeezed := strings.NewReplacer(" ", "", ",", "", "0x1", "01").Replace(text)
		if strings.Contains(squeezed, seed) || strings.Contains(squeezed, strings.Repeat("1", 32)) || strings.Contains(squeezed, "AQEBAQEB") {
			t.Errorf("shows the key: %s", text)
		}
	}
	if !strings.Contains(log.String(), key.ID()) {
		t.Errorf("log does not name the key id: %s", log.String())
	}
}

func TestFingerprintIsTheHashOfTheDERForm(t *testing.T) {
	// Made with: openssl pkey -pubin -in testdata/golden.pub.pem -outform DER | sha256sum
	const want = "sha256:fd110d301d2f077de1414b8f99f441b1403fab207b2052fbd2c065e4ee8e7dc2"
	if got := fixedKey(t, 1).ID(); got != want {
		t.Errorf("key id is %s, want %s", got, want)
	}
	if _, err := receipt.Fingerprint(nil); err == nil {
		t.Error("fingerprint of no key")
	}
	if (receipt.Key{}).ID() != "" || (receipt.Key{}).Public() != nil {
		t.Error("the zero key has a public half")
	}
	if _, err := receipt.NewKey(nil); err == nil {
		t.Error("a key of no bytes")
	}
}

// A private key beside another's public half signs in a way that reveals it.
func TestPublicHalfIsDerivedNotBelieved(t *testing.T) {
	seed, err := hex.DecodeString(strings.Repeat("01", 32))
	if err != nil {
		t.Fatal(err)
	}
	key, err := receipt.NewKey(append(seed, fixedKey(t, 2).Public()...))
	if err != nil {
		t.Fatal(err)
	}
	if key.ID() != fixedKey(t, 1).ID() {
		t.Error("the public half given was believed")
	}
}

func TestPublicKeyFilesMakeARing(t *testing.T) {
	folder := t.TempDir()
	first, both := filepath.Join(folder, "a.pem"), filepath.Join(folder, "b.pem")
	if err := receipt.WritePublicKey(first, fixedKey(t, 2).Public()); err != nil {
		t.Fatal(err)
	}
	if err := receipt.WritePublicKey(first, fixedKey(t, 1).Public()); err != nil {
		t.Fatal(err)
	}
	var text []byte
	for _, fill := range []byte{2, 3} {
		block, err := receipt.EncodePublicKey(fixedKey(t, fill).Public())
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, block...)
	}
	if err := os.WriteFile(both, text, 0o644); err != nil {
		t.Fatal(err)
	}
	ring, err := receipt.LoadKeyRing(first, both)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{fixedKey(t, 1).ID(), fixedKey(t, 2).ID(), fixedKey(t, 3).ID()}
	slices.Sort(want)
	if !slices.Equal(ring.IDs(), want) || ring.Len() != 3 {
		t.Errorf("ring holds %v, want %v", ring.IDs(), want)
	}
	private := filepath.Join(folder, "receipt.key")
	if _, err := receipt.LoadOrCreateKey(private); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(folder, "empty.pem")
	if err := os.WriteFile(empty, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	torn := filepath.Join(folder, "torn.pem")
	if err := os.WriteFile(torn, text[:len(text)-10], 0o644); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{private, empty, torn, filepath.Join(folder, "none.pem")} {
		if _, err := receipt.LoadKeyRing(first, bad); err == nil {
			t.Errorf("%s was taken for a public key", filepath.Base(bad))
		}
	}
	left, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	if len(left) != 5 {
		t.Errorf("%d files in the folder, want 5: temporary files were left", len(left))
	}
}
