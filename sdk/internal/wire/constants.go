package wire

// The handshake. The cookie tells a person's shell from an engine; it is no secret.
const (
	ProtocolMajor = 1
	ProtocolMinor = 0
	CookieKey     = "PAWL_ADAPTER_COOKIE"
	CookieValue   = "6f0d6a0ce1c94b8ea4a7b0b5c79a1f3e27b1d6a95c0e4d3f8f2d5e6a9b7c4810"
	PluginName    = "adapter"
)

// Descriptors that an adapter process inherits.
const (
	LifelineFD = 3 // read end; at its end when the engine is gone
	BeginFD    = 4 // write end; one record for each Begin
)

// MaxMessage is the size of the largest message, in bytes, in both directions: payload and frozen token travel in one.
const MaxMessage = 32 << 20

// MaxText bounds a text that an adapter gives for a person to read, in bytes. Longer ones are cut.
const MaxText = 8 << 10
