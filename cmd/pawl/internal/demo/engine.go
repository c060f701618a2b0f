package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// engine is the child process, started again whenever it is killed.
type engine struct {
	command string // engine or serve
	config  string // path
	log     *os.File
	mu      sync.Mutex
	cmd     *exec.Cmd
	exited  chan struct{}
	starts  int
}

// writeConfig writes the configuration that a person would write, as JSON, which is YAML.
func writeConfig(o Options, w world, dir, ledgerURL, channelName, listen string) (string, error) {
	policy := map[string]any{
		"unknown": "hold", "send_timeout": "2s", "commit_bound": "1s", "margin": "200ms", "fence_ttl": "4s", "probe_timeout": "3s",
		"backoff_first": "50ms", "backoff_max": "1s", "probe_every": "250ms", "held_every": "2s", "start_ceiling": 1000, "attempt_ceiling": 1000,
	}
	if o.NoProbe {
		policy["no_probe"] = true
	}
	c := map[string]any{
		"ledger": map[string]any{"url": ledgerURL},
		"data":   filepath.Join(dir, "data"),
		"issuer": "organism:demo:main",
		"log":    map[string]any{"level": "info", "format": "json"},
		"engine": map[string]any{
			"poll_every": "100ms", "heartbeat_every": "200ms", "heartbeat_timeout": "1s", "scan_every": "5s", "stop_grace": "10s", "clock_allowance": "500ms",
		},
		"channels": map[string]any{
			channelName: map[string]any{"adapter": w.adapter(), "config": w.config(), "policy": policy},
		},
	}
	if o.Serve {
		c["api"] = map[string]any{"listen": listen}
	}
	raw, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "pawl.yaml")
	return path, os.WriteFile(path, raw, 0o600) // it holds a password
}

func newEngine(command, config, dir string) (*engine, error) {
	log, err := os.OpenFile(filepath.Join(dir, "engine.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return &engine{command: command, config: config, log: log}, nil
}

// start starts the engine, unless it runs.
func (e *engine) start() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cmd != nil {
		return nil
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, e.command, "--config", e.config)
	cmd.Stdout, cmd.Stderr = e.log, e.log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the engine: %w", err)
	}
	exited := make(chan struct{})
	e.cmd, e.exited = cmd, exited
	e.starts++
	go func() { // owned by stop and kill, which wait for exited
		_ = cmd.Wait()
		e.mu.Lock()
		e.cmd = nil
		e.mu.Unlock()
		close(exited)
	}()
	return nil
}

// running reports whether the engine's process lives.
func (e *engine) running() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.cmd != nil
}

// kill kills the engine, its adapter, or both, without asking.
func (e *engine) kill(engineToo, adapterToo bool) {
	e.mu.Lock()
	cmd, exited := e.cmd, e.exited
	e.mu.Unlock()
	if cmd == nil {
		return
	}
	var children []int
	if adapterToo {
		children = childrenOf(cmd.Process.Pid)
	}
	if engineToo {
		_ = cmd.Process.Kill()
	}
	for _, pid := range children {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	if engineToo {
		<-exited
	}
}

// stop asks the engine to stop, as an operator would.
func (e *engine) stop(ctx context.Context) error {
	e.mu.Lock()
	cmd, exited := e.cmd, e.exited
	e.mu.Unlock()
	if cmd == nil {
		return nil
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-exited:
		return nil
	case <-ctx.Done():
		_ = cmd.Process.Kill()
		<-exited
		return fmt.Errorf("the engine did not stop when asked: %w", ctx.Err())
	}
}

// keepAlive starts the engine again whenever it has gone, until ctx ends.
func (e *engine) keepAlive(ctx context.Context) error {
	for ctx.Err() == nil {
		began := time.Now()
		if err := e.start(); err != nil {
			return err
		}
		e.mu.Lock()
		exited := e.exited
		e.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil
		case <-exited:
		}
		if time.Since(began) < 50*time.Millisecond && !pause(ctx, 100*time.Millisecond) { // it cannot start at all: do not spin
			return nil
		}
	}
	return nil
}

// childrenOf lists the child processes.
func childrenOf(pid int) []int {
	out, err := exec.Command("pgrep", "-P", strconv.Itoa(pid)).Output()
	if err != nil {
		return nil
	}
	var pids []int
	for field := range strings.FieldsSeq(string(out)) {
		if n, err := strconv.Atoi(field); err == nil {
			pids = append(pids, n)
		}
	}
	return pids
}
