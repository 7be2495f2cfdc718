//! Rules that the recorded cases do not cover.
