-- +goose Up

-- A claim by plain SQL could be due at infinity, or in a year that JSON has no form for: one such row would break every list that it is in.
ALTER TABLE effect_intents ADD CONSTRAINT effect_intents_times CHECK (
    due_at >= '1970-01-01 00:00:00+00' AND due_at < '10000-01-01 00:00:00+00'
    AND (expires_at IS NULL OR expires_at >= '1970-01-01 00:00:00+00' AND expires_at < '10000-01-01 00:00:00+00'));
