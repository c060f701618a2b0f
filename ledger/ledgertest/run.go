package ledgertest

import (
	"testing"
)

// Run runs the whole suite. open is called once for each topic and must return an empty, migrated ledger.
func Run(t *testing.T, open func(t *testing.T) Backend) {
	t.Helper()
	for _, topic := range topics() {
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
		scanTopic(), laneTopic(), effectsTopic(), channelsTopic(), leaseTopic(), readerTopic(), illegalTopic(), raceTopic(), epochTopic(),
	}
}
