// Package claim shows how a program asks for an effect in the transaction that makes it true.
package claim

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/ledger/postgres"
)

// Order is what this program keeps itself. Run is a UUID that was chosen with the order.
type Order struct{ ID, Run, Mail string }

// Pay marks the order as paid and claims the mail that confirms it: both are there afterwards, or neither. Called again it sends no
// second mail.
func Pay(ctx context.Context, pool *pgxpool.Pool, l *postgres.Ledger, o Order) error {
	payload, err := json.Marshal(map[string]string{"to": o.Mail, "subject": "Your order " + o.ID, "text": "Thank you."})
	if err != nil {
		return err
	}
	for {
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "UPDATE orders SET state = 'paid' WHERE id = $1", o.ID); err != nil {
				return err
			}
			_, err := l.Claim(ctx, postgres.Tx(tx), ledger.Claim{
				RunID:     o.Run,                  // a UUID, one for each unit of work
				EffectKey: "mail:confirm-" + o.ID, // names the effect in this run: no time, no random value
				Channel:   "mail/shop",
				Payload:   payload,
			})
			return err
		})
		if !errors.Is(err, ledger.ErrRetryTransaction) {
			return err
		}
	}
}
