//! The second backend: glommio.
