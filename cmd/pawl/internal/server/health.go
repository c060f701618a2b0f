package server

import (
	"encoding/json"
	"net/http"

	"github.com/pawlworks/pawl/core"
	"github.com/pawlworks/pawl/sdk/pawlclient"
)

// wellness is what /healthz and /readyz answer.
type wellness struct {
	OK       bool                                `json:"ok"`
	Reason   string                              `json:"reason,omitempty"`
	Channels map[string]pawlclient.ChannelHealth `json:"channels,omitempty"`
}

// healthz says whether the process should be left alone: 503 if one of the engine's loops stands still, which only a restart mends.
func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) {
	answer := wellness{OK: true}
	for _, l := range s.Engine.Pulse().Loops {
		if l.Stuck() {
			answer = wellness{Reason: "the loop " + loopName(l) + " has made no progress for " + l.Silent.String()}
		}
	}
	answer.write(w)
}

func loopName(l core.Loop) string {
	if l.Channel == "" {
		return l.Name
	}
	return l.Name + " of " + l.Channel
}

// readyz says whether the process should get new requests: 503 if not. A channel that is not ready is shown, and makes no difference.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	answer := wellness{OK: true, Channels: s.Channels()}
	if err := s.Ready(r.Context()); err != nil {
		answer.OK, answer.Reason = false, err.Error()
	}
	answer.write(w)
}

func (a wellness) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if !a.OK {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(a) // nobody is left to tell
}
