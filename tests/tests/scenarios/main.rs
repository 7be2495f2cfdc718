//! Scenarios on an engine alone: one program, because each would link everything once more.

mod backfill;
mod bad_groups;
mod coscheduling;
mod exact_gangs;
mod given_back;
mod group_world;
mod groups;
mod histories;
mod numbered;
mod tenants;
