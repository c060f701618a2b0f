package pawlclient

// Identity is who a request counts as.
type Identity struct {
	Name    string   `json:"name"`
	TokenID string   `json:"token_id,omitempty"`
	Scopes  []string `json:"scopes"`
	// Tokenless says that the ledger has no API token yet, and whoever is on this machine may do everything.
	Tokenless bool `json:"tokenless,omitempty"`
}
