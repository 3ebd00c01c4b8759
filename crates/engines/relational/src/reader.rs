//! Rows, whose columns are in the same order in every database.

use bramah_core::{Claim, ClaimId, Error, Fence, Name, Result, SessionId};
use sqlx::{ColumnIndex, Decode, Row, Type};

use crate::{Answer, Break, Found, Head, Renewed, Seen};

/// What a row could not be read as.
type Unread = sqlx::Error;

/// Reads one row.
#[derive(Debug)]
pub struct Reader<'r, R>(pub &'r R);

impl<'r, R> Reader<'r, R>
where
    R: Row,
    usize: ColumnIndex<R>,
    i64: Decode<'r, R::Database> + Type<R::Database>,
    bool: Decode<'r, R::Database> + Type<R::Database>,
    String: Decode<'r, R::Database> + Type<R::Database>,
{
    /// Where a claim stands: the state, its fence, what is left of its lease, how many are ahead, and how long to sleep.
    ///
    /// # Errors
    /// The outer one for columns that are not these, the inner one for what they say.
    pub fn answer(&self, claim: &Claim) -> Result<Result<Answer>, Unread> {
        let state: String = self.0.try_get(0)?;
        let number = |at: usize| self.0.try_get::<Option<i64>, usize>(at);
        Ok(Answer::read(claim, &state, number(1)?, number(2)?, number(3)?, number(4)?))
    }

    /// A number that is not negative.
    ///
    /// # Errors
    /// For a column that is not one.
    pub fn whole(&self, at: usize) -> Result<u64, Unread> {
        let number: i64 = self.0.try_get(at)?;
        u64::try_from(number).map_err(|error| sqlx::Error::Decode(error.into()))
    }

    /// A session, in hexadecimal digits.
    ///
    /// # Errors
    /// For a column that is not one.
    pub fn session(&self, at: usize) -> Result<SessionId, Unread> {
        let text: String = self.0.try_get(at)?;
        text.parse().map_err(|error: Error| sqlx::Error::Decode(error.into()))
    }

    /// Which claim: the session and the number.
    fn id(&self, from: usize) -> Result<ClaimId, Unread> {
        Ok(ClaimId { session: self.session(from)?, seq: self.whole(from + 1)? })
    }

    /// A claim that is held: the session, the number and the fence.
    ///
    /// # Errors
    /// For columns that are not these.
    pub fn granted(&self) -> Result<(ClaimId, Fence), Unread> {
        Ok((self.id(0)?, Fence::new(self.whole(2)?)))
    }

    /// The first waiter of a line: the name, the session, the number, and whether the line has to be advanced.
    ///
    /// # Errors
    /// For columns that are not these.
    pub fn head(&self) -> Result<Head, Unread> {
        let name: String = self.0.try_get(0)?;
        let name = Name::new(name).map_err(|error| sqlx::Error::Decode(error.into()))?;
        Ok(Head { name, id: self.id(1)?, is_stuck: self.0.try_get(3)? })
    }

    /// A claim: the name, the capacity, the weight, the ttl, the lease and the note.
    fn found(&self, from: usize) -> Result<Found, Unread> {
        Ok(Found {
            name: self.0.try_get(from)?,
            capacity: self.0.try_get(from + 1)?,
            weight: self.0.try_get(from + 2)?,
            ttl: self.0.try_get(from + 3)?,
            lease: self.0.try_get(from + 4)?,
            note: self.0.try_get(from + 5)?,
        })
    }

    /// A renewed claim: its number, whether it is held, whether it was asked for, and what it is if it was not.
    ///
    /// # Errors
    /// For columns that are not these.
    pub fn renewed(&self) -> Result<Renewed, Unread> {
        let asked: bool = self.0.try_get(2)?;
        let stray = if asked { None } else { Some(self.found(3)?) };
        Ok(Renewed { seq: self.whole(0)?, held: self.0.try_get(1)?, stray })
    }

    /// A place in line: the session, the number, what it is, whether it is held, its fence, its age, since when it is held,
    /// how long it will live, who is behind it, and how long ago it was renewed.
    ///
    /// # Errors
    /// For columns that are not these.
    pub fn seen(&self) -> Result<Seen, Unread> {
        Ok(Seen {
            session: self.session(0)?,
            seq: self.whole(1)?,
            found: self.found(2)?,
            held: self.0.try_get(8)?,
            fence: self.0.try_get(9)?,
            age: self.0.try_get(10)?,
            since: self.0.try_get(11)?,
            left: self.0.try_get(12)?,
            about: self.0.try_get(13)?,
            renewed: self.0.try_get(14)?,
        })
    }

    /// A break: the name, the session, the number, by whom, why, and how long ago.
    ///
    /// # Errors
    /// For columns that are not these.
    pub fn broken(&self) -> Result<Break, Unread> {
        Ok(Break {
            name: self.0.try_get(0)?,
            session: self.session(1)?,
            seq: self.whole(2)?,
            by: self.0.try_get(3)?,
            reason: self.0.try_get(4)?,
            ago: self.0.try_get(5)?,
        })
    }
}
