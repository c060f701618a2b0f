// Command report reads the output of go test -json, prints what a person wants to see of it, and ends with the counts and the names
// of skipped tests in one last line. With CI=true a skipped test is a failure: a missing peer must not look like a pass.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strings"
	"time"
)

type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64
	FailedBuild                   string
	ImportPath                    string
}

func main() { os.Exit(run()) }

func run() int {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(make([]byte, 1<<20), 64<<20)
	output := map[string][]string{} // of one test, until it ends
	var passed, failed int
	var skipped []string
	broken := false
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			fmt.Println(lines.Text())
			continue
		}
		key := e.Package + "\x00" + e.Test
		switch e.Action {
		case "output", "build-output":
			if e.Action == "build-output" {
				fmt.Print(e.Output)
			} else {
				output[key] = append(output[key], e.Output)
			}
		case "pass", "fail", "skip":
			if e.Test == "" {
				took := time.Duration(e.Elapsed * float64(time.Second)).Round(10 * time.Millisecond)
				fmt.Printf("%-5s %-60s %s\n", e.Action, strings.TrimPrefix(e.Package, "github.com/pawlworks/pawl/"), took)
				if e.Action == "fail" {
					broken = true
					fmt.Print(strings.Join(output[key], ""))
				}
				delete(output, key)
				continue
			}
			switch e.Action {
			case "pass":
				passed++
			case "fail":
				failed++
				fmt.Print(strings.Join(output[key], ""))
			case "skip":
				skipped = append(skipped, strings.TrimPrefix(e.Package, "github.com/pawlworks/pawl/")+"."+e.Test)
			}
			delete(output, key)
		}
	}
	if err := lines.Err(); err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		return 2
	}
	for key, text := range output { // began and never ended: a crash or a time-out
		if strings.HasSuffix(key, "\x00") {
			continue
		}
		broken = true
		fmt.Printf("did not end: %s\n%s", strings.ReplaceAll(key, "\x00", " "), strings.Join(tail(text, 200), ""))
	}
	sort.Strings(skipped)
	names := ""
	if len(skipped) > 0 {
		names = ": " + strings.Join(skipped, ", ")
		fmt.Println("skipped" + names)
	}
	fmt.Printf("%d passed, %d failed, %d skipped\n", passed, failed, len(skipped))
	if failed > 0 || broken {
		return 1
	}
	if len(skipped) > 0 && os.Getenv("CI") == "true" {
		fmt.Fprintln(os.Stderr, "a skipped test is a failed check here")
		return 1
	}
	return 0
}

func tail(s []string, n int) []string {
	if len(s) > n {
		return s[len(s)-n:]
	}
	return s
}
