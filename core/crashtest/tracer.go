package crashtest

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Tracer marks a point before and after each statement of a pgx connection, also within batches.
type Tracer struct{ Points *Points }

var (
	_ pgx.QueryTracer = Tracer{}
	_ pgx.BatchTracer = Tracer{}
)

type statement struct{}

// TraceQueryStart marks the point before.
func (t Tracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	t.Points.Hit("before " + brief(d.SQL))
	return context.WithValue(ctx, statement{}, brief(d.SQL))
}

// TraceQueryEnd marks the point after.
func (t Tracer) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) {
	name, _ := ctx.Value(statement{}).(string)
	t.Points.Hit("after " + name)
}

// TraceBatchStart marks the point before a batch is sent.
func (t Tracer) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	t.Points.Hit("before batch")
	return ctx
}

// TraceBatchQuery marks the point after each answer of a batch.
func (t Tracer) TraceBatchQuery(_ context.Context, _ *pgx.Conn, d pgx.TraceBatchQueryData) {
	t.Points.Hit("in batch, after " + brief(d.SQL))
}

// TraceBatchEnd marks the point after a batch.
func (t Tracer) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {
	t.Points.Hit("after batch")
}

// brief is the beginning of a statement in one line.
func brief(sql string) string {
	sql = strings.Join(strings.Fields(sql), " ")
	if len(sql) > 60 {
		return sql[:60]
	}
	return sql
}
