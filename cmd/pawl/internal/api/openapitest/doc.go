// Package openapitest holds the document that the API publishes against the schema of OpenAPI 3.1. It is apart from the API's own
// tests because the validator is large.
package openapitest
