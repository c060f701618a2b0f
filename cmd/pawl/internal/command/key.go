package command

import (
	"encoding/json"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/pawlworks/pawl/canonical"
)

func newKey() *cobra.Command {
	c := &cobra.Command{
		Use:   "key",
		Short: "Make effect keys",
		Long: `Make an effect key: the business identity of an effect, the same at every retry. It names the step or content that was
fixed before the run; never a time, a random value or an attempt number.`,
	}
	c.AddCommand(newKeyMail(), newKeyTelegram(), newKeyFarcaster(), newKeyOnchain(), newKeyOther(), newKeyResource())
	return c
}

// keyView is what the key commands print with --json.
type keyView struct {
	EffectKey string `json:"effect_key"`
}

// keyCommand is a command that prints one key.
func keyCommand(c *cobra.Command, build func(c *cobra.Command, args []string) (string, error)) *cobra.Command {
	out := new(output)
	c.RunE = func(c *cobra.Command, args []string) error {
		key, err := build(c, args)
		if err != nil {
			return keyFault(err)
		}
		return out.print(c, keyView{key}, func(w io.Writer) { row(w, key) })
	}
	out.flags(c)
	return c
}

// keyFault says which part of a key is wrong.
func keyFault(err error) error {
	var exit *exitError
	if errors.As(err, &exit) {
		return err
	}
	return usage("%v", err)
}

// jsonFlag reads a flag that holds JSON. Empty is nil.
func jsonFlag(c *cobra.Command, name, value string) (any, error) {
	if value == "" {
		return nil, nil
	}
	raw, err := readValue(c, name, value)
	if err != nil {
		return nil, err
	}
	if _, err := canonical.Sum(raw); err != nil {
		return nil, usage("--%s: %v", name, err)
	}
	return json.RawMessage(raw), nil
}

func newKeyMail() *cobra.Command {
	var to []string
	var subject, body string
	c := keyCommand(&cobra.Command{
		Use: "mail", Short: "Key of a mail: recipients, subject and text part", Args: none,
		Example: `  pawl key mail --to ada@example.org --subject Hello --body 'Hello Ada'`,
	}, func(*cobra.Command, []string) (string, error) {
		if len(to) == 0 {
			return "", usage("--to is missing: name the recipient")
		}
		return canonical.MailKey(to, subject, body)
	})
	c.Flags().StringArrayVar(&to, "to", nil, "recipient's address; may be repeated; required")
	c.Flags().StringVar(&subject, "subject", "", "subject")
	c.Flags().StringVar(&body, "body", "", "text part")
	return c
}

func newKeyTelegram() *cobra.Command {
	var chat, text string
	c := keyCommand(&cobra.Command{
		Use: "telegram", Short: "Key of a Telegram message: chat and text", Args: none,
	}, func(*cobra.Command, []string) (string, error) {
		if chat == "" {
			return "", usage("--chat is missing: give the chat's number or @name")
		}
		return canonical.TelegramKey(chat, text)
	})
	c.Flags().StringVar(&chat, "chat", "", "number or @name of the chat; required")
	c.Flags().StringVar(&text, "text", "", "text of the message")
	return c
}

func newKeyFarcaster() *cobra.Command {
	var text, embeds, channel string
	c := keyCommand(&cobra.Command{
		Use: "farcaster", Short: "Key of a Farcaster cast: text, embeds and channel", Args: none,
	}, func(c *cobra.Command, _ []string) (string, error) {
		list, err := jsonFlag(c, "embeds", embeds)
		if err != nil {
			return "", err
		}
		return canonical.FarcasterKey(text, list, channel)
	})
	c.Flags().StringVar(&text, "text", "", "text of the cast")
	c.Flags().StringVar(&embeds, "embeds", "", "list of embeds: JSON, a file, or - for standard input")
	c.Flags().StringVar(&channel, "channel", "", "channel of the cast")
	return c
}

func newKeyOnchain() *cobra.Command {
	var chain, contract, method, args string
	c := keyCommand(&cobra.Command{
		Use: "onchain", Short: "Key of a transaction: chain, contract, method and arguments", Args: none,
		Example: `  pawl key onchain --chain 1 --contract 0x5aAe… --method transfer --args '["0xfB69…","1000"]'`,
	}, func(c *cobra.Command, _ []string) (string, error) {
		for _, part := range []struct{ name, value string }{{"chain", chain}, {"contract", contract}, {"method", method}, {"args", args}} {
			if part.value == "" {
				return "", usage("--%s is missing", part.name)
			}
		}
		list, err := jsonFlag(c, "args", args)
		if err != nil {
			return "", err
		}
		return canonical.OnchainKey(chain, contract, method, list)
	})
	c.Flags().StringVar(&chain, "chain", "", "chain id; required")
	c.Flags().StringVar(&contract, "contract", "", "contract's address, always spelled the same; required")
	c.Flags().StringVar(&method, "method", "", "method; required")
	c.Flags().StringVar(&args, "args", "", "list of arguments: JSON, a file, or - for standard input; required")
	return c
}

func newKeyOther() *cobra.Command {
	var prefix, identity string
	c := keyCommand(&cobra.Command{
		Use: "other", Short: "Key of any other kind: prefix and identity", Args: none,
		Example: `  pawl key other --prefix webhook:orders --identity '{"order":7}'`,
	}, func(c *cobra.Command, _ []string) (string, error) {
		if prefix == "" {
			return "", usage("--prefix is missing: begin with the kind")
		}
		if identity == "" {
			return "", usage("--identity is missing: give what makes the effect the one it is, as JSON")
		}
		value, err := jsonFlag(c, "identity", identity)
		if err != nil {
			return "", err
		}
		return canonical.Key(prefix, value)
	})
	c.Flags().StringVar(&prefix, "prefix", "", "kind, which may go on behind a colon; required")
	c.Flags().StringVar(&identity, "identity", "", "JSON, a file, or - for standard input; required")
	return c
}

// resourceView is what key resource prints with --json.
type resourceView struct {
	ResourceID string `json:"resource_id"` // the run's idempotency key
	RunID      string `json:"run_id"`
}

func newKeyResource() *cobra.Command {
	var out output
	var kind, key string
	c := &cobra.Command{
		Use:   "resource",
		Short: "Id of the one run that may exist for a resource",
		Args:  none,
		RunE: func(c *cobra.Command, _ []string) error {
			id, err := canonical.DeterministicResourceID(kind, key)
			if err != nil {
				return usage("%v", err)
			}
			run, err := canonical.ResourceRunID(id)
			if err != nil {
				return usage("%v", err)
			}
			return out.print(c, resourceView{id, run}, func(w io.Writer) {
				row(w, "resource", id)
				row(w, "run", run)
			})
		},
	}
	out.flags(c)
	c.Flags().StringVar(&kind, "kind", "", "kind of the resource; required")
	c.Flags().StringVar(&key, "key", "", "key of the resource; required")
	return c
}
