//! Walls: what limits whom, in which window, in which unit. Owns how a level is shown.
//!
//! Invariant of what is shown: `used + held + remaining = limit`, always. What is used or held beyond the limit is not in
//! these but in `over_by`, so that `used + held + over_by` is all that there is.

use std::sync::Arc;

use super::calendar::Window;

/// Whom a wall limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// One run: a sub-budget that agents open for themselves.
    Run,
    /// A key.
    Key,
    /// A team.
    Team,
}

impl Scope {
    /// As results and the storage name it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Key => "key",
            Self::Team => "team",
        }
    }
}

/// What a wall counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unit {
    /// o200k tokens.
    Tokens,
    /// Calls.
    Calls,
}

impl Unit {
    /// As results and the storage name it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tokens => "tokens",
            Self::Calls => "calls",
        }
    }

    /// What a call of so many tokens takes.
    pub(super) fn of(self, tokens: u64) -> u64 {
        match self {
            Self::Tokens => tokens,
            Self::Calls => 1,
        }
    }
}

/// What is counted: it keeps its level when its limit changes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Account {
    /// Whose.
    pub scope: Scope,
    /// Name of the key or team, or handle of the run.
    pub name: Arc<str>,
    /// How long it counts before it begins anew.
    pub window: Window,
    /// In what.
    pub unit: Unit,
}

/// A limit on an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wall {
    /// What is counted.
    pub account: Account,
    /// Most of it in a window.
    pub limit: u64,
}

impl Wall {
    /// Whether `used` and `held` are at least 80 % of the limit.
    fn is_near(&self, taken: u64) -> bool {
        u128::from(taken) * 5 >= u128::from(self.limit) * 4
    }
}

/// Where a wall stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// Whose.
    pub scope: Scope,
    /// How long it counts.
    pub window: Window,
    /// In what.
    pub unit: Unit,
    /// Most of it.
    pub limit: u64,
    /// Used, up to the limit.
    pub used: u64,
    /// Held for calls that go on, up to what is left of the limit.
    pub held: u64,
    /// Neither used nor held.
    pub remaining: u64,
    /// Used and held beyond the limit.
    pub over_by: u64,
    /// Whether 80 % is used or held.
    pub warn: bool,
    /// When it begins anew, in milliseconds since 1970; never for a run.
    pub resets_at: Option<i64>,
}

impl View {
    pub(super) fn new(wall: &Wall, used: u64, held: u64, resets_at: Option<i64>) -> Self {
        let taken = used.saturating_add(held);
        let shown = used.min(wall.limit);
        let shown_held = held.min(wall.limit - shown);
        Self {
            scope: wall.account.scope,
            window: wall.account.window,
            unit: wall.account.unit,
            limit: wall.limit,
            used: shown,
            held: shown_held,
            remaining: wall.limit - shown - shown_held,
            over_by: taken.saturating_sub(wall.limit),
            warn: wall.is_near(taken),
            resets_at,
        }
    }

    /// Whether a call of so many tokens fits.
    #[must_use]
    pub fn fits(&self, tokens: u64) -> bool {
        self.over_by == 0 && self.unit.of(tokens) <= self.remaining
    }

    /// Whether it would fit if nothing were held: then it may fit soon.
    #[must_use]
    pub fn fits_unheld(&self, tokens: u64) -> bool {
        self.unit.of(tokens) <= self.limit - self.used
    }
}

/// The wall that says the most about what may still be done: one that is used up, else the lowest in tokens.
#[must_use]
pub fn tightest(views: &[View]) -> Option<&View> {
    views.iter().min_by_key(|v| (v.unit == Unit::Calls && v.remaining > 0, v.remaining))
}
