package docs_test

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/pawlworks/pawl/core"
)

// drain is how long a service is still reached while it stops, where others may have its address.
const drain = 5 * time.Second

// need skips the test by name where a program is missing, or fails it in CI.
func need(t *testing.T, why string, err error) {
	t.Helper()
	if err == nil {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s: %v", why, err)
	}
	t.Skipf("%s: %v", why, err)
}

func TestTheUnitIsOneThatSystemdTakes(t *testing.T) {
	const program = "/usr/local/bin/pawl"
	unit := page(t, "deploy/pawl.service")
	if n := strings.Count(unit, "="+program); n != 1 {
		t.Fatalf("%s stands in %d places", program, n)
	}
	if grace := seconds(t, unit, "TimeoutStopSec="); grace <= core.DefaultStopGrace+drain {
		t.Errorf("TimeoutStopSec is %s: what is under way may take %s and %s more", grace, core.DefaultStopGrace, drain)
	}
	_, err := exec.LookPath("systemd-analyze")
	need(t, "systemd-analyze is needed", err)
	file := filepath.Join(t.TempDir(), "pawl.service")
	// The program is not where it will be: any other stands for it.
	if err := os.WriteFile(file, []byte(strings.Replace(unit, "="+program, "=/bin/true", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "systemd-analyze", "verify", file).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze: %v\n%s", err, out)
	}
}

func seconds(t *testing.T, text, after string) time.Duration {
	t.Helper()
	_, rest, ok := strings.Cut(text, after)
	if !ok {
		t.Fatalf("there is no %s", after)
	}
	word, _, _ := strings.Cut(rest, "\n")
	d, err := time.ParseDuration(word)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestTheComposeFileStartsReplicasOnMigratedTables(t *testing.T) {
	type service struct {
		Command   []string
		DependsOn map[string]struct{ Condition string } `yaml:"depends_on"`
		Deploy    struct{ Replicas int }
		Grace     string `yaml:"stop_grace_period"`
		Volumes   []string
	}
	var file struct{ Services map[string]service }
	text := page(t, "deploy/compose.yaml")
	if err := yaml.Unmarshal([]byte(text), &file); err != nil {
		t.Fatal(err)
	}
	pawl, migrate := file.Services["pawl"], file.Services["migrate"]
	if fmt.Sprint(pawl.Command, migrate.Command, pawl.Deploy.Replicas) != "[serve] [migrate up] 3" {
		t.Errorf("pawl is %+v, migrate is %+v", pawl, migrate)
	}
	if pawl.DependsOn["migrate"].Condition != "service_completed_successfully" || migrate.DependsOn["postgres"].Condition != "service_healthy" {
		t.Errorf("pawl waits for %v, migrate for %v", pawl.DependsOn, migrate.DependsOn)
	}
	if grace, err := time.ParseDuration(pawl.Grace); err != nil || grace <= core.DefaultStopGrace+drain {
		t.Errorf("stop_grace_period is %q: what is under way may take %s and %s more", pawl.Grace, core.DefaultStopGrace, drain)
	}
	if !strings.Contains(fmt.Sprint(pawl.Volumes), "state:/var/lib/pawl") {
		t.Errorf("the receipt key is kept in %v", pawl.Volumes)
	}
}

// containers runs the docker command. It skips the test by name where there is no engine, or fails it in CI.
func containers(t *testing.T) func(arguments ...string) string {
	t.Helper()
	_, err := exec.LookPath("docker")
	need(t, "docker is needed", err)
	need(t, "a Docker engine is needed (.ci/docker runs one)", exec.CommandContext(t.Context(), "docker", "version").Run())
	return func(arguments ...string) string { t.Helper(); return command(t, "docker", arguments...) }
}

// command runs a program to its end and returns what it prints.
func command(t *testing.T, program string, arguments ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	c := exec.CommandContext(t.Context(), program, arguments...)
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); err != nil {
		t.Fatalf("%s %s: %v\n%s%s", program, strings.Join(arguments, " "), err, out.String(), errs.String())
	}
	return strings.TrimSpace(out.String())
}

// testImage is the name of the image that the tests build.
const testImage = "pawl-test/pawl"

// TestTheImageServes builds the image and runs it read-only and without rights, on the ledger that is built in.
func TestTheImageServes(t *testing.T) {
	docker := containers(t)
	command(t, "deploy/image", testImage)
	if got := docker("run", "--rm", testImage, "version"); !strings.HasPrefix(got, "pawl ") {
		t.Errorf("version is %q", got)
	}
	configuration, err := filepath.Abs("deploy/pawl.yaml")
	if err != nil {
		t.Fatal(err)
	}
	volume := fmt.Sprintf("pawl-test-%d", time.Now().UnixNano())
	t.Cleanup(func() { _ = exec.Command("docker", "volume", "rm", "--force", volume).Run() })
	run := func(arguments ...string) []string {
		return append([]string{
			"run", "--read-only", "--tmpfs", "/tmp:exec,mode=1777", "--cap-drop", "ALL", "--security-opt", "no-new-privileges",
			"--volume", configuration + ":/etc/pawl/pawl.yaml:ro", "--volume", volume + ":/var/lib/pawl",
		}, arguments...)
	}
	docker(run("--rm", testImage, "migrate", "up")...)
	docker(run("--rm", testImage, "tokens", "create", "test", "--scope", "read")...)
	id := docker(run("--detach", "--publish", "127.0.0.1::7243", "--publish", "127.0.0.1::7240", testImage)...)
	t.Cleanup(func() {
		if t.Failed() {
			out, _ := exec.Command("docker", "logs", id).CombinedOutput()
			t.Logf("the container says\n%s", out)
		}
		_ = exec.Command("docker", "rm", "--force", id).Run()
	})
	await(t, "http://"+docker("port", id, "7243/tcp")+"/readyz", http.StatusOK)
	await(t, "http://"+docker("port", id, "7240/tcp")+"/v1/intents", http.StatusUnauthorized)
	docker("stop", "--time", "60", id)
	if code := docker("inspect", "--format", "{{.State.ExitCode}}", id); code != "0" {
		t.Errorf("the stopped service's exit code is %s", code)
	}
	t.Run("as three replicas on Postgres", func(t *testing.T) { replicas(t, docker) })
}

// replicas runs the compose file as its first lines say.
func replicas(t *testing.T, docker func(arguments ...string) string) {
	_, err := exec.LookPath("docker-compose")
	need(t, "docker-compose is needed", err)
	database := os.Getenv("PAWL_TEST_POSTGRES_IMAGE")
	if database == "" {
		need(t, "an image of Postgres is needed", fmt.Errorf("set PAWL_TEST_POSTGRES_IMAGE"))
	}
	t.Setenv("PAWL_IMAGE", testImage)
	t.Setenv("POSTGRES_IMAGE", database)
	t.Setenv("POSTGRES_PASSWORD", "pass-word-1")
	project := fmt.Sprintf("pawltest%d", time.Now().UnixNano())
	compose := func(arguments ...string) string {
		t.Helper()
		return command(t, "docker-compose", append([]string{"--compatibility", "-p", project, "-f", "deploy/compose.yaml"}, arguments...)...)
	}
	t.Cleanup(func() {
		c := exec.Command("docker-compose", "-p", project, "-f", "deploy/compose.yaml", "down", "--volumes")
		if out, err := c.CombinedOutput(); err != nil {
			t.Logf("docker-compose down: %v\n%s", err, out)
		}
	})
	compose("run", "--rm", "pawl", "tokens", "create", "you", "--scope", "admin")
	compose("up", "-d")
	for _, n := range []string{"1", "2", "3"} {
		await(t, "http://"+compose("port", "--index", n, "pawl", "7243")+"/readyz", http.StatusOK)
	}
	ids := strings.Fields(compose("ps", "-q", "pawl"))
	compose("stop", "pawl")
	if len(ids) != 3 {
		t.Fatalf("%d replicas", len(ids))
	}
	for _, id := range ids {
		if code := docker("inspect", "--format", "{{.State.ExitCode}}", id); code != "0" {
			t.Errorf("a stopped replica's exit code is %s", code)
		}
	}
}

// await asks until the answer is the wanted one.
func await(t *testing.T, url string, want int) {
	t.Helper()
	last := ""
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		response, err := http.Get(url)
		if err != nil {
			last = err.Error()
			continue
		}
		_ = response.Body.Close()
		if last = response.Status; response.StatusCode == want {
			return
		}
	}
	t.Fatalf("%s: %s, want %d", url, last, want)
}
