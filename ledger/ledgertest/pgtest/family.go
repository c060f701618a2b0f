package pgtest

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// childrenOf lists the child processes, as far as the system tells.
func childrenOf(parent int) []int {
	out, err := exec.Command("ps", "-A", "-o", "pid=,ppid=").Output()
	if err != nil {
		return nil
	}
	var children []int
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) != 2 || fields[1] != strconv.Itoa(parent) {
			continue
		}
		if pid, err := strconv.Atoi(fields[0]); err == nil {
			children = append(children, pid)
		}
	}
	return children
}

// alive reports whether the process is there and can still do something. In a container there may be nobody who reaps it.
func alive(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return false
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return true // gone just now, or a system without /proc: ask again
	}
	// "pid (name) state …"; the name may hold anything.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	return len(fields) == 0 || fields[0][0] != 'Z' && fields[0][0] != 'X'
}
