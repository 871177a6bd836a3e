//! irc
