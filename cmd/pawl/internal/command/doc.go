// Package command is the command line of pawl: it reads flags and the configuration, calls the packages that do the work,
// and prints what they say, as a table for people or as JSON for programs.
//
// Every error is one line that names the field and the fix, and every kind of failure has an exit code of its own (see
// [ExitCodes]). Nothing here decides about an effect.
package command
