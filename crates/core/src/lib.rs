//! The core of Bramah: one trait over every store that locks live in, and everything that is written once above it.
//!
//! A request goes one way: a face ([`Mutex`], [`RwLock`], [`Semaphore`], [`Election`]) asks the acquire loop, which
//! goes through the gate where a store needs one, to the [`Engine`], to the store, and back as a [`Guard`]. The
//! [`Keeper`] is the only other actor: it renews, declares losses, and finishes what callers left.
//!
//! The rule that all of them follow is in [`line`](mod@line); what an engine owes is in [`engine`].
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> bramah_core::Result<()> {
//! use bramah_core::{Memory, Session};
//! let session = Session::open(Memory::new()).await?;
//! let guard = session.mutex("orders/42")?.lock().await?;
//! println!("held with fence {:?}", guard.fence());
//! guard.release().await;
//! # Ok(()) }
//! ```

mod about;
mod acquire;
mod alarm;
#[cfg(feature = "blocking")]
pub mod blocking;
mod calls;
mod claim;
mod clock;
mod core;
mod departures;
mod detached;
mod election;
mod ends;
pub mod engine;
mod error;
mod fence;
mod flight;
mod gate;
mod hold;
mod inspect;
mod keeper;
pub mod line;
mod lock;
mod memory;
mod multi;
mod mutex;
mod name;
mod owner;
mod parting;
mod profile;
pub mod quorum;
mod rwlock;
mod seat;
mod semaphore;
mod session;
mod slots;
mod trouble;
mod wake;
mod want;

pub use about::About;
pub use alarm::Alarm;
pub use claim::{Claim, ClaimId, SessionId, Tag, Wait};
pub use clock::{Clock, Moment};
pub use detached::Detached;
pub use election::{Election, Leader, Leadership, Observer};
pub use engine::{
    Break, Broken, Engine, Exit, Health, Keep, LineView, Look, Opening, PlaceState, PlaceView, Renewal,
    Reply, Scope, Standing, Survey,
};
pub use error::{Error, ErrorKind, Result};
pub use fence::Fence;
pub use hold::{Guard, Release};
pub use keeper::Keeper;
pub use lock::Lock;
pub use memory::Memory;
pub use multi::{All, Guards, all};
pub use mutex::Mutex;
pub use name::Name;
pub use owner::{Owned, Owner};
pub use profile::{
    Asking, Capacities, Fencing, Leasing, Liveness, Modes, Order, Profile, Seats, Strays, Waking,
};
pub use rwlock::RwLock;
pub use semaphore::Semaphore;
pub use session::{Closed, Session, SessionBuilder};
pub use slots::Slots;
pub use wake::{Bell, Wake, Woken};
