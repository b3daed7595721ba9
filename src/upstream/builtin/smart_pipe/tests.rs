//! Pipelines of the tools that are there.
