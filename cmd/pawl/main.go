// Command pawl makes every approved outside effect fire once, survive any crash, and leave evidence.
package main

import (
	"os"

	"github.com/pawlworks/pawl/cmd/pawl/internal/command"
)

func main() {
	os.Exit(command.Main(os.Args[1:], command.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
}
