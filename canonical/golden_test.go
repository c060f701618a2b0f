package canonical

import "testing"

func TestGoldenDigests(t *testing.T) {
	for _, c := range []struct{ raw, form, digest string }{
		{
			`{"z":100,"a":"dreamnet-spore","m":{"b":true,"a":null}}`,
			`{"a":"dreamnet-spore","m":{"a":null,"b":true},"z":100}`,
			"6b560a8869530ac60f9d3795e55d04240d237010140502f8f7a768d190de013a",
		},
		{
			`{"2":4,"10":3,"B":1,"a":2,"_z":5}`,
			`{"10":3,"2":4,"B":1,"_z":5,"a":2}`,
			"e9e4735773c21ac5ecfa6ab3bd29a28038e24c68980c0e4cd693a4995f60dc2e",
		},
	} {
		form, err := Transform([]byte(c.raw))
		if err != nil {
			t.Fatalf("Transform(%s): %v", c.raw, err)
		}
		if string(form) != c.form {
			t.Errorf("Transform(%s) = %s, want %s", c.raw, form, c.form)
		}
		d, err := Sum([]byte(c.raw))
		if err != nil {
			t.Fatalf("Sum(%s): %v", c.raw, err)
		}
		if d.Hex() != c.digest {
			t.Errorf("Sum(%s) = %s, want %s", c.raw, d.Hex(), c.digest)
		}
		if d != SumBytes(form) {
			t.Errorf("Sum(%s) differs from SumBytes of the form", c.raw)
		}
	}
}
