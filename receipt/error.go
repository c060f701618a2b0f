package receipt

import "fmt"

// IssueError says why a receipt could not be made. The outcome it was about
// stands: record the receipt as owed and try again after the cause is gone.
type IssueError struct {
	Field   string // the field of [Effect] or [Options] at fault; empty if none is
	Problem string // one clause
	Err     error  // the cause, if another package reported it
}

// Error names the field and the problem.
func (e *IssueError) Error() string {
	text := "issue receipt: "
	if e.Field != "" {
		text += e.Field + " "
	}
	text += e.Problem
	if e.Err != nil {
		text += fmt.Sprintf(": %v", e.Err)
	}
	return text
}

// Unwrap returns the cause.
func (e *IssueError) Unwrap() error { return e.Err }

func fault(field, problem string) *IssueError {
	return &IssueError{Field: field, Problem: problem}
}
