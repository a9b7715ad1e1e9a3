//! Whether a sandbox is there. Whoever knows its name may ask.

use axum::body::Body;
use axum::http::{Response, StatusCode};

use super::trouble::gone;
use crate::http::front::Front;

pub(super) fn answer(front: &Front, id: &str) -> Response<Body> {
    if !front.service.is_running(id) {
        return gone(id);
    }
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}
