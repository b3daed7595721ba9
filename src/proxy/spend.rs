//! What a tool call takes of its key's budget: held before it goes out, settled when its answer has ended. A
//! built-in tool pays for its result; a call of another server for its arguments and its result, as they pass.
//!
//! Invariant: whatever way a call ends, what it held is settled once. Calls without a budget have none of this.

use std::{
    sync::{Arc, LazyLock},
    thread,
};

use tokio::{sync::Semaphore, task::JoinError};
use tokio_util::task::TaskTracker;

use super::{error::Cause, guard::Sealed, observe::bounded, prepare::Caller};
use crate::{
    audit::record::{Attempt, Tokens},
    mcp::{json::Raw, message::Message, normalize, tools::ToolSet},
    policy::budget::{Held, Wallet},
    text::tokens,
    upstream::builtin::{self, Usage},
};

/// Most of a result that is kept to be counted, in bytes. A longer one is estimated at four bytes to a token, which
/// is off by some 20 % either way.
pub(super) const COUNTED: usize = 4 * 1024 * 1024;
/// Text up to this long is counted where it is: some 3 ms. The workers of the runtime do not wait for more.
const IN_PLACE: usize = 64 * 1024;
/// Long texts that are counted at once: more would take memory and threads, and no less time.
static COUNTS: LazyLock<Semaphore> =
    LazyLock::new(|| Semaphore::new(thread::available_parallelism().map_or(1, usize::from)));
/// What a built-in tool returns at most when it is not told.
const UNTOLD: u64 = 4_000;
/// Of arguments, this much may stand in a result again, in bytes.
const ECHOED: u64 = 4_096;

/// A tool call that a budget applies to.
#[derive(Debug)]
pub(super) struct Spend {
    tenant: Arc<str>,
    wallet: Wallet,
    upstream: Arc<str>,
    tool: String,
    price: Price,
}

#[derive(Debug)]
enum Price {
    /// A built-in tool, with the most tokens that it may return.
    Result(u64),
    /// Arguments and result.
    Both(Vec<u8>),
}

impl Spend {
    /// `None` where no budget applies: no key with one, no tool call, or the tool that tells of budgets.
    pub(super) fn of(caller: Caller<'_>, message: &Message<'_>, tools: &ToolSet) -> Option<Self> {
        let payer = &caller.key?.facts.caller;
        let wallet = payer.wallet.clone()?;
        let direct = !caller.route.is_builtin() && normalize::is_direct_tool(message, tools);
        let (tool, arguments) = if message.method.as_deref() == Some("tools/call") {
            (message.name.as_deref().unwrap_or_default(), message.arguments)
        } else if direct {
            // Where nothing is repaired, the server may take the method for a tool all the same.
            (message.method.as_deref().unwrap_or_default(), message.params)
        } else {
            return None;
        };
        let server = caller.route.server_of(tool);
        let (server, own) = server.unwrap_or_else(|| (caller.route, tool.into()));
        let price = match server.is_builtin() {
            true if &*own == builtin::FREE => return None,
            true => Price::Result(arguments.map_or(UNTOLD, most)),
            false => Price::Both(arguments.map_or_else(Vec::new, |a| a.bytes().to_vec())),
        };
        let upstream = Arc::clone(&server.spec.name);
        Some(Self { tenant: Arc::clone(&payer.tenant), wallet, upstream, tool: bounded(&own), price })
    }

    /// Holds what the call will probably take.
    ///
    /// # Errors
    /// [`Cause::BudgetExhausted`]: a wall has less left.
    pub(super) async fn hold(self, tasks: &TaskTracker) -> Result<Spending, Cause> {
        let (estimate, third) = match self.price {
            Price::Result(most) => (most, None),
            Price::Both(arguments) => {
                let arguments = count(arguments).await;
                let usual = self.wallet.ledger().estimates.of(&self.tenant, &self.upstream, &self.tool);
                let third = Third {
                    tenant: self.tenant,
                    upstream: self.upstream,
                    tool: self.tool,
                    arguments,
                    tasks: tasks.clone(),
                };
                (arguments.saturating_add(usual).max(1), Some(third))
            }
        };
        let held = self.wallet.hold(estimate).map_err(|r| Cause::BudgetExhausted(Box::new(r)))?;
        Ok(Spending { held: Some(held), passed: None, third })
    }
}

/// What a call holds, until it is known what it took.
#[derive(Debug)]
pub struct Spending {
    held: Option<Held>,
    /// Tokens that have passed; `None` while nothing was sent.
    passed: Option<u64>,
    third: Option<Third>,
}

/// A call of a server outside the process.
#[derive(Debug)]
struct Third {
    tenant: Arc<str>,
    upstream: Arc<str>,
    tool: String,
    arguments: u64,
    tasks: TaskTracker,
}

impl Spending {
    /// Tokens held.
    pub(super) fn held(&self) -> u64 {
        self.held.as_ref().map_or(0, Held::tokens)
    }

    /// The call goes out. What is known of its size.
    pub(super) fn begin(&mut self) -> Option<Tokens> {
        let input = self.third.as_ref()?.arguments;
        self.passed = Some(input);
        Some(Tokens { input, output: 0, saved: 0 })
    }

    /// There was no connection. If that is so of every attempt, nothing was sent.
    pub(super) fn failed(&mut self, attempts: &[Attempt]) {
        if attempts.iter().all(|a| a.error_type.as_deref() == Some("upstream_connect")) {
            self.passed = None;
        }
    }

    /// The response head is there; a built-in tool says with it what its result weighs. A result that is larger than
    /// what was held, such as one from a long document behind a reference, passes only if the budget has room for it.
    ///
    /// # Errors
    /// [`Cause::BudgetExhausted`]; then nothing is taken.
    pub(super) fn answered(&mut self, usage: Option<&Usage>) -> Result<(), Cause> {
        if self.third.is_none() {
            let tokens = usage.map_or(0, |u| u.tokens_out);
            if let Some(held) = &mut self.held {
                held.raise(tokens).map_err(|refused| Cause::BudgetExhausted(Box::new(refused)))?;
            }
            self.passed = Some(tokens);
        }
        Ok(())
    }

    /// Whether the result has to be kept for counting.
    pub(super) fn counts_result(&self) -> bool {
        self.third.is_some()
    }

    /// Settles what was held for what has passed, and lets the record go.
    pub(super) fn settle(mut self, passed: Passed, mut record: Sealed) {
        let Some(third) = self.third.take() else { return };
        let tasks = third.tasks.clone();
        let is_long = passed.is_long();
        let work = move || {
            let output = passed.count();
            if output > 0
                && let Some(held) = &self.held
            {
                held.ledger().estimates.learn(&third.tenant, &third.upstream, &third.tool, output);
            }
            self.passed = Some(third.arguments.saturating_add(output));
            drop(self);
            record.weigh(Tokens { input: third.arguments, output, saved: 0 });
        };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) if is_long => drop(tasks.spawn_on(in_turn(work), &runtime)),
            _ => work(),
        }
    }
}

impl Drop for Spending {
    fn drop(&mut self) {
        if let (Some(held), Some(passed)) = (self.held.take(), self.passed) {
            held.commit(passed);
        }
    }
}

/// A result, as much as has passed.
#[derive(Debug, Default)]
pub(super) struct Passed {
    /// Its first bytes.
    pub(super) kept: Vec<u8>,
    /// How many there were.
    pub(super) bytes: u64,
}

impl Passed {
    fn is_whole(&self) -> bool {
        self.bytes <= self.kept.len() as u64
    }

    fn is_long(&self) -> bool {
        self.is_whole() && self.kept.len() > IN_PLACE
    }

    fn count(&self) -> u64 {
        if self.is_whole() { tokens::count(&String::from_utf8_lossy(&self.kept)) } else { self.bytes / 4 }
    }
}

async fn count(mut text: Vec<u8>) -> u64 {
    let bytes = text.len() as u64;
    text.truncate(COUNTED);
    let text = Passed { kept: text, bytes };
    if !text.is_long() {
        return text.count();
    }
    in_turn(move || text.count()).await
}

/// Does work that takes the processor for a while, beside the workers of the runtime, when it is its turn.
async fn in_turn<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let _turn = COUNTS.acquire().await; // fails only for a closed one, which this never is
    match tokio::task::spawn_blocking(work).await.map_err(JoinError::try_into_panic) {
        Ok(done) => done,
        Err(Ok(panic)) => std::panic::resume_unwind(panic),
        Err(Err(_)) => std::future::pending().await, // the runtime ends, and with it whoever waits here
    }
}

/// What a built-in tool returns at most: what it is told, beside what of its arguments comes back (an address); or,
/// untold, no more than the text that it was sent. Two bytes are at least a token in nearly all texts.
fn most(arguments: Raw<'_>) -> u64 {
    let bytes = arguments.bytes().len() as u64;
    match most_tokens(arguments) {
        Some(told) => told.saturating_add(bytes.min(ECHOED) / 2),
        None => UNTOLD.max(bytes / 2),
    }
}

/// `max_tokens`, as the built-in tools read it.
fn most_tokens(arguments: Raw<'_>) -> Option<u64> {
    let value = arguments.get("max_tokens")?;
    let text = value.as_str();
    let number: f64 = text.as_deref().unwrap_or(value.text()).trim().parse().ok()?;
    // Saturates: what no tool would return is more than any budget has.
    (number >= 0.0).then_some(number as u64)
}
