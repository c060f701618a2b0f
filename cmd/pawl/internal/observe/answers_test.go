package observe

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestTheLedgerIsAskedOnceHoweverManyAskForReadiness(t *testing.T) {
	var asked atomic.Int64
	var away atomic.Bool
	came, answer := make(chan struct{}), make(chan struct{})
	check := Answers(func(context.Context) error {
		if asked.Add(1) == 1 {
			close(came)
			<-answer
		}
		if away.Load() {
			return errors.New("connection refused")
		}
		return nil
	})
	gone, cancel := context.WithCancel(t.Context())
	cancel() // one that goes away is no answer for the others
	var group sync.WaitGroup
	for range 50 {
		group.Go(func() {
			if r := check(gone); r[0].Status != OK {
				t.Errorf("%+v", r)
			}
		})
	}
	<-came
	close(answer)
	group.Wait()
	if n := asked.Load(); n != 1 {
		t.Errorf("the ledger was asked %d times", n)
	}
	away.Store(true)
	for deadline := time.Now().Add(time.Minute); check(t.Context())[0].Status != Failed; {
		if time.Now().After(deadline) {
			t.Fatal("an answer counts for ever")
		}
		time.Sleep(answerMemory / 10)
	}
	if n := asked.Load(); n != 2 {
		t.Errorf("the ledger was asked %d times", n)
	}
}
