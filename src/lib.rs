//! The request path of Hedgerow.
