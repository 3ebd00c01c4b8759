//! A text of yours and what is bound to it.

use sqlx::{Arguments, Encode, SqlSafeStr, SqlStr, Type};

use crate::{Result, dialect::Dialect};

/// It is built step by step, and a value that cannot be encoded is told when it is run.
pub(crate) struct Statement<DB: Dialect> {
    text: SqlStr,
    arguments: DB::Arguments,
    fault: Option<sqlx::Error>,
}

impl<DB: Dialect> Statement<DB> {
    pub(crate) fn new(text: impl SqlSafeStr) -> Self {
        Self { text: text.into_sql_str(), arguments: DB::Arguments::default(), fault: None }
    }

    pub(crate) fn bind<'v, T: Encode<'v, DB> + Type<DB>>(&mut self, value: T) {
        if let Err(why) = self.arguments.add(value) {
            self.fault.get_or_insert(sqlx::Error::Encode(why));
        }
    }

    pub(crate) fn ready(self) -> Result<(SqlStr, DB::Arguments)> {
        match self.fault {
            Some(why) => Err(why.into()),
            None => Ok((self.text, self.arguments)),
        }
    }
}
