//! Every promise of the interface, asserted against every compiled backend:
//! `cargo test -p runtime --features glommio,sim`.

#[path = "contract/support.rs"]
mod support;

#[path = "contract/net.rs"]
mod net;

#[path = "contract/cores.rs"]
mod cores;

#[path = "contract/timing.rs"]
mod timing;

#[path = "contract/connections.rs"]
mod connections;

#[path = "contract/streams.rs"]
mod streams;

#[path = "contract/bells.rs"]
mod bells;
