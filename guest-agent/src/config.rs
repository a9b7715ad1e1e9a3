//! The agent's configuration: words of the form `key=value`, from the kernel command line (where each is
//! prefixed with `rekindle.`) or from the agent's own arguments. Read once at start.

use std::path::PathBuf;

use crate::tuning::Switches;

/// Where the bytes to and from the supervisor travel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transport {
    /// `vsock:PORT`: listen on a vsock port.
    Vsock(u32),
    /// `port:NAME`: the virtio-serial port of that name.
    Port(String),
    /// `tty:PATH`: a terminal device, made raw.
    Tty(PathBuf),
    /// `unix:PATH`: listen on a unix socket.
    Unix(PathBuf),
    /// `fd:N`: a connected socket inherited from whoever started the agent.
    Inherited(i32),
}

/// What the agent was told at its start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// `transport=`, required.
    pub transport: Transport,
    /// `ready=`: a vsock port of the host to connect to once the agent listens.
    pub ready: Option<u32>,
    /// `user=`: login name executions and file operations run as. Default `user`.
    pub user: String,
    /// `home=`: home directory of that user, instead of the one in `/etc/passwd`.
    pub home: Option<PathBuf>,
    /// `state=`: where full output is kept. Default `/var/lib/rekindle`.
    pub state: PathBuf,
    /// `cgroup=`: the cgroup v2 directory below which executions are placed, `none` for nowhere. Default
    /// `/sys/fs/cgroup`.
    pub cgroup: Option<PathBuf>,
    /// `programs=`: where the programs of warm interpreters are. Default
    /// `/usr/lib/rekindle/interpreters`.
    pub programs: PathBuf,
    /// `network=`: `on` or `off`: whether connections of programs are brought to the host. Default: where the agent is
    /// init.
    pub network: Option<bool>,
    /// `health=`: the port at which programs can ask whether there is a code interpreter. Default: that of E2B's where
    /// the agent is init, none elsewhere.
    pub health: Option<u16>,
    /// `disk=`: a disk that an earlier machine was stopped with; what was saved on it becomes part of the root again.
    /// Default: there is none.
    pub disk: Option<PathBuf>,
    /// `tuning=`: mechanisms that only save time and are off, such as `-preopened,-settle`. Default: all are on.
    pub tuning: Switches,
}

/// A word that cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ConfigError {
    /// No `transport=` was given.
    #[error("no transport= was given\nhint: one of vsock:PORT, port:NAME, tty:PATH, unix:PATH, fd:N")]
    NoTransport,
    /// The value does not fit the key.
    #[error("{key}={value} cannot be used")]
    BadValue {
        /// The word's key.
        key: String,
        /// The word's value.
        value: String,
    },
    /// There is no such key.
    #[error(
        "unknown word {word}\nhint: known are transport= ready= user= home= state= cgroup= programs= network= health= disk= tuning="
    )]
    UnknownWord {
        /// The whole word.
        word: String,
    },
}

impl Config {
    /// Takes the words that start with `rekindle.`; the others are the kernel's.
    pub fn from_kernel_command_line(line: &str) -> Result<Self, ConfigError> {
        Self::from_words(line.split_ascii_whitespace().filter_map(|word| word.strip_prefix("rekindle.")))
    }

    /// Takes every word.
    pub fn from_words<'a>(words: impl Iterator<Item = &'a str>) -> Result<Self, ConfigError> {
        let mut transport = None;
        let mut config = Self {
            transport: Transport::Inherited(-1),
            ready: None,
            user: "user".into(),
            home: None,
            state: "/var/lib/rekindle".into(),
            cgroup: Some("/sys/fs/cgroup".into()),
            programs: "/usr/lib/rekindle/interpreters".into(),
            network: None,
            health: None,
            disk: None,
            tuning: Switches::default(),
        };
        for word in words {
            let unknown = || ConfigError::UnknownWord { word: word.into() };
            let (key, value) = word.split_once('=').ok_or_else(unknown)?;
            let bad = || ConfigError::BadValue { key: key.into(), value: value.into() };
            if value.is_empty() {
                return Err(bad());
            }
            match key {
                "transport" => transport = Some(parse_transport(value).ok_or_else(bad)?),
                "ready" => config.ready = Some(value.parse().map_err(|_| bad())?),
                "user" => config.user = value.into(),
                "home" => config.home = Some(value.into()),
                "state" => config.state = value.into(),
                "cgroup" => config.cgroup = (value != "none").then(|| value.into()),
                "programs" => config.programs = value.into(),
                "network" => config.network = Some(on_or_off(value).ok_or_else(bad)?),
                "health" => config.health = Some(value.parse().map_err(|_| bad())?),
                "disk" => config.disk = Some(value.into()),
                "tuning" => config.tuning = Switches::parse(value).ok_or_else(bad)?,
                _ => return Err(unknown()),
            }
        }
        config.transport = transport.ok_or(ConfigError::NoTransport)?;
        Ok(config)
    }
}

fn on_or_off(value: &str) -> Option<bool> {
    match value {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    }
}

fn parse_transport(value: &str) -> Option<Transport> {
    let (kind, rest) = value.split_once(':')?;
    match kind {
        _ if rest.is_empty() => None,
        "vsock" => rest.parse().ok().map(Transport::Vsock),
        "port" => Some(Transport::Port(rest.into())),
        "tty" => Some(Transport::Tty(rest.into())),
        "unix" => Some(Transport::Unix(rest.into())),
        "fd" => rest.parse().ok().filter(|fd| *fd > 2).map(Transport::Inherited),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
