//! Every bound of the agent protocol, in one place. `docs/agent-protocol.md` repeats them in words.

use std::time::Duration;

/// Largest encoded message. A longer length prefix ends the stream.
pub const MAX_FRAME_BYTES: usize = 1024 * 1024;

/// Largest hello or answer to one.
pub const MAX_HELLO_BYTES: usize = 16 * 1024;

/// Largest piece of file content, input or output in one message.
pub const MAX_CHUNK_BYTES: usize = 256 * 1024;

/// The piece size both sides actually send.
pub const CHUNK_BYTES: usize = 64 * 1024;

/// Largest whole standard input of an execution.
pub const MAX_STDIN_BYTES: usize = 512 * 1024;

/// Largest source text, and largest single argument or variable: Linux allows 128 KiB for one string.
pub const MAX_STRING_BYTES: usize = 120 * 1024;

/// The first moment that the clock of an execution may start at, in nanoseconds since 1970: the beginning of 1980. No
/// clock that counts from the boot gets there, so that a moment tells which clock it is of; nor has a ZIP archive
/// earlier ones.
pub const CLOCK_FIRST_NANOS: u64 = 315_532_800 * 1_000_000_000;

/// The first moment that is too late for it: the beginning of 2200. The distance to now fits 64 bits.
pub const CLOCK_END_NANOS: u64 = 7_258_118_400 * 1_000_000_000;

/// Longest name of a time zone.
pub const MAX_TIMEZONE_BYTES: usize = 64;

/// Streams open at once on one connection.
pub const MAX_STREAMS: usize = 1024;

/// Memory that bytes may take in a host which have come on the streams that one guest has opened, and nobody has read.
/// An agent has 128 of them open, of 256 KiB each.
pub const MAX_UNREAD_BYTES: usize = 48 << 20;

/// Bytes that may wait in a host to be sent on the streams that one guest has opened; further ones wait for these.
pub const MAX_QUEUED_BYTES: usize = 4 << 20;

/// Modules warm Pythons import beforehand.
pub const MAX_WARM_MODULES: usize = 256;

/// Node processes that wait at once.
pub const MAX_WARM_NODES: u32 = 8;

/// Executions under way at once in one guest.
pub const MAX_EXECUTIONS: usize = 256;

/// Connections of the host to ports of one guest at once.
pub const MAX_PORT_CONNECTIONS: usize = 64;

/// How long the program at a port may take to be connected to.
pub const PORT_DEADLINE: Duration = Duration::from_secs(5);

/// Characters of each output stream in a result, unless the caller asks otherwise.
pub const DEFAULT_OUTPUT_LIMIT: usize = 4_000;

/// Smallest output limit that leaves room for the marker of a cut.
pub const MIN_OUTPUT_LIMIT: usize = 100;

/// Largest output limit: 100,000 characters of four bytes, twice, fit in a frame.
pub const MAX_OUTPUT_LIMIT: usize = 100_000;

/// Bytes of full output kept for each stream of an execution, unless the sandbox says otherwise.
pub const DEFAULT_KEPT_OUTPUT_BYTES: u64 = 64 * 1024 * 1024;

/// Executions whose full output is kept; older ones are removed.
pub const MAX_KEPT_OUTPUTS: usize = 32;

/// Longest path.
pub const MAX_PATH_BYTES: usize = 4096;

/// Arguments and environment variables of one execution, and their bytes together.
pub const MAX_ARGS: usize = 4096;
/// Bytes of arguments and environment of one execution together.
pub const MAX_ARG_BYTES: usize = 768 * 1024;

/// Entries of one directory listing.
pub const MAX_LIST_ENTRIES: usize = 10_000;
/// Bytes of all names, targets of links and metadata in one listing: enough for 10,000 names of the greatest length.
pub const MAX_LIST_BYTES: usize = 4 << 20;

/// Bytes of the name of a file's owner or group.
pub const MAX_OWNER_BYTES: usize = 64;

/// Pairs of metadata of one file.
pub const MAX_METADATA_PAIRS: usize = 32;
/// Bytes of one name in them; the kernel takes 255 with the prefix.
pub const MAX_METADATA_NAME_BYTES: usize = 200;
/// Bytes of all names and values of one file's metadata: what ext4 keeps beside an inode, in one block of 4 KiB.
pub const MAX_METADATA_BYTES: usize = 3072;

/// Watches of directories at once in one guest.
pub const MAX_WATCHES: usize = 16;

/// Directories of one recursive watch.
pub const MAX_WATCHED_DIRECTORIES: usize = 4_096;

/// Changes in one message.
pub const MAX_EVENTS: usize = 256;

/// Longest text of an [`Error`](crate::wire::Error).
pub const MAX_MESSAGE_BYTES: usize = 4096;

/// Largest uploaded file, unless the sandbox says otherwise.
pub const DEFAULT_UPLOAD_BYTES: u64 = 4 * 1024 * 1024 * 1024;

/// Fresh entropy a restore must bring.
pub const MIN_ENTROPY_BYTES: usize = 32;
/// More entropy than this is refused.
pub const MAX_ENTROPY_BYTES: usize = 512;

/// Bytes of what a guest sends first on a stream that it opens, the length before it included.
pub const MAX_EGRESS_REQUEST_BYTES: u64 = 1024;

/// How long a stream may be open before its request is complete.
pub const REQUEST_DEADLINE: Duration = Duration::from_secs(30);
