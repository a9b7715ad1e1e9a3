/** The version, which is the server's of the same release. */
export const VERSION = "0.1.0";
