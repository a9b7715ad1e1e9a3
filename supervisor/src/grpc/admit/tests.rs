//! Every method has its name.

use prost::Message as _;
use prost_types::FileDescriptorSet;

use super::*;

#[test]
fn every_method_of_the_api_is_known_by_its_name() {
    let set = FileDescriptorSet::decode(rekindle_api::DESCRIPTORS).expect("descriptors");
    let mut count = 0;
    for file in set.file.iter().filter(|file| file.package() == "rekindle.v1") {
        for service in &file.service {
            for rpc in &service.method {
                let name = format!("{}/{}", service.name(), rpc.name());
                assert_eq!(method(&format!("{PACKAGE}{name}")), name);
                assert_eq!(STREAMS.contains(&&name[..]), rpc.server_streaming(), "{name}");
                count += 1;
            }
        }
    }
    assert_eq!(count, METHODS.len());
    for made_up in
        ["", "/", "/rekindle.v1.Sandboxes/", "/rekindle.v1.Sandboxes/Nothing", "/rekindle.v1.Host/Create"]
    {
        assert_eq!(method(made_up), UNKNOWN);
    }
}
