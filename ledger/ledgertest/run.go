package ledgertest

import (
	"slices"
	"testing"
)

// Run runs the whole suite. open is called once for each topic and must return an empty, migrated ledger.
func Run(t *testing.T, open func(t *testing.T) Backend) {
	t.Helper()
	run(t, topics(), open)
}

// RunOnly runs the topics of these names, where the whole suite would say no more. A name that no topic has fails.
func RunOnly(t *testing.T, open func(t *testing.T) Backend, names ...string) {
	t.Helper()
	var chosen []topic
	for _, topic := range topics() {
		if slices.Contains(names, topic.name) {
			chosen = append(chosen, topic)
		}
	}
	if len(chosen) != len(names) {
		t.Fatalf("of the topics %q, %d are there", names, len(chosen))
	}
	run(t, chosen, open)
}

func run(t *testing.T, chosen []topic, open func(t *testing.T) Backend) {
	t.Helper()
	for _, topic := range chosen {
		t.Run(topic.name, func(t *testing.T) {
			b := open(t)
			for _, c := range topic.cases {
				if c.needsWriters && b.OneWriter {
					continue
				}
				t.Run(c.name, func(t *testing.T) { c.run(newFixture(t, b)) })
			}
		})
	}
}

// topic is a group of cases that share one database.
type topic struct {
	name  string
	cases []testCase
}

// testCase is one promise. Its name says it.
type testCase struct {
	name string
	run  func(f *fixture)
	// needsWriters: two transactions write at the same time.
	needsWriters bool
}

func topics() []topic {
	return []topic{
		claimTopic(), approvalTopic(), fenceTopic(), sendTopic(), commitTopic(), reopenTopic(), lookTopic(), lateTopic(),
		scanTopic(), laneTopic(), effectsTopic(), channelsTopic(), leaseTopic(), readerTopic(), illegalTopic(), raceTopic(), epochTopic(), redriveTopic(), retentionTopic(),
		accessTopic(), receiptTopic(), traceTopic(), hostLeaseTopic(),
	}
}
