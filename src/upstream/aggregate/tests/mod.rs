//! The aggregate over scripted servers whose catalogs are at work.

mod calls;
mod fake;
mod listening;
mod lists;
mod running;
mod tasks;
mod trouble;
