//! Transactions of users, under a lock.

use bramah_core::Guard;

use crate::{engine::Inner, layout::Span, ops, proto::etcdserverpb::Compare};

/// A key that is there, and since when: what a lock is held by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The key of the claim.
    pub key: Vec<u8>,
    /// The revision at which it was created. A key of that name that was created later is another claim's.
    pub create_revision: i64,
}

impl Condition {
    /// The same as etcd compares it.
    pub fn compare(&self) -> Compare {
        ops::created(&Span::one(&self.key), self.create_revision)
    }
}

impl Inner {
    pub(crate) fn condition(&self, guard: &Guard) -> Option<Condition> {
        let rooms: Vec<_> = self.rooms().values().cloned().collect();
        let found = rooms.iter().find_map(|room| room.tagged(guard.tag()));
        let entry = found.filter(|_| guard.is_held())?;
        Some(Condition { key: entry.key.clone(), create_revision: entry.create })
    }
}
