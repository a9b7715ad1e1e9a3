//! Builds netlink messages: a header, fixed bytes, attributes inside attributes. Pure.

/// Room that a length or an attribute takes up to.
const ALIGN: usize = 4;
const HEADER: usize = 16;
/// Says that attributes are inside.
const NESTED: u16 = libc::NLA_F_NESTED as u16;

/// One message, or several in a row.
#[derive(Debug, Default)]
pub struct Messages {
    bytes: Vec<u8>,
    /// Where the message that is being built begins.
    start: usize,
    count: u32,
}

impl Messages {
    /// Begins a message of this kind, with the fixed bytes that it starts with.
    pub fn begin(&mut self, kind: u16, flags: u16, fixed: &[u8]) -> &mut Self {
        self.finish();
        self.start = self.bytes.len();
        self.count += 1;
        self.bytes.extend_from_slice(&0u32.to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(&(flags | libc::NLM_F_REQUEST as u16).to_ne_bytes());
        self.bytes.extend_from_slice(&self.count.to_ne_bytes());
        self.bytes.extend_from_slice(&0u32.to_ne_bytes());
        self.bytes.extend_from_slice(fixed);
        self.pad();
        self
    }

    /// An attribute of bytes.
    pub fn bytes(&mut self, kind: u16, value: &[u8]) -> &mut Self {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(&[0, 0]);
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(value);
        self.set_length(at);
        self.pad();
        self
    }

    /// An attribute of text, which ends with a zero.
    pub fn text(&mut self, kind: u16, value: &str) -> &mut Self {
        self.bytes(kind, &[value.as_bytes(), &[0]].concat())
    }

    /// An attribute of a number, as netfilter writes it.
    pub fn number(&mut self, kind: u16, value: u32) -> &mut Self {
        self.bytes(kind, &value.to_be_bytes())
    }

    /// An attribute with others inside.
    pub fn nested(&mut self, kind: u16, inside: impl FnOnce(&mut Self)) -> &mut Self {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(&[0, 0]);
        self.bytes.extend_from_slice(&(kind | NESTED).to_ne_bytes());
        inside(self);
        self.set_length(at);
        self
    }

    /// All of them, to be sent at once.
    pub fn into_bytes(mut self) -> Vec<u8> {
        self.finish();
        self.bytes
    }

    fn set_length(&mut self, at: usize) {
        let length = u16::try_from(self.bytes.len() - at).unwrap_or(u16::MAX);
        self.bytes[at..at + 2].copy_from_slice(&length.to_ne_bytes());
    }

    fn finish(&mut self) {
        if self.bytes.len() >= self.start + HEADER {
            let length = u32::try_from(self.bytes.len() - self.start).unwrap_or(u32::MAX);
            self.bytes[self.start..self.start + 4].copy_from_slice(&length.to_ne_bytes());
        }
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGN), 0);
    }
}

#[cfg(test)]
mod tests;
