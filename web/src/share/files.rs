//! Handing things over: the clipboard, downloads, the printer.

use js_sys::{Array, Reflect};
use leptos::prelude::*;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;
use web_sys::{
    Blob, BlobPropertyBag, CanvasRenderingContext2d, HtmlAnchorElement, HtmlCanvasElement,
    HtmlImageElement, Url,
};

/// Puts text on the clipboard.
///
/// # Errors
/// When the browser refuses.
pub async fn copy(text: &str) -> Result<(), String> {
    let navigator = window().navigator();
    let offered = Reflect::get(&navigator, &"clipboard".into()).is_ok_and(|it| it.is_object());
    if !offered {
        return Err("this browser offers pages no clipboard here".into());
    }
    JsFuture::from(navigator.clipboard().write_text(text))
        .await
        .map(drop)
        .map_err(|_| "the browser refused the clipboard".into())
}

/// A file in memory.
pub fn blob(content: &str, kind: &str) -> Option<Blob> {
    let options = BlobPropertyBag::new();
    options.set_type(kind);
    Blob::new_with_str_sequence_and_options(&Array::of1(&content.into()), &options).ok()
}

/// Has the browser save a file.
pub fn download(content: &Blob, name: &str) -> Option<()> {
    let url = Url::create_object_url_with_blob(content).ok()?;
    let link: HtmlAnchorElement = document().create_element("a").ok()?.dyn_into().ok()?;
    link.set_href(&url);
    link.set_download(name);
    link.click();
    // The download has begun by then, or never will.
    set_timeout(
        move || drop(Url::revoke_object_url(&url)),
        std::time::Duration::from_secs(60),
    );
    Some(())
}

/// A drawing as a PNG file, `scale` pixels to each of its units.
///
/// # Errors
/// When the browser cannot draw it.
pub async fn png(svg: &str, width: f64, height: f64, scale: f64) -> Result<Blob, String> {
    let failed = |_: JsValue| "the browser could not draw the picture".to_owned();
    let source = blob(svg, "image/svg+xml").ok_or("there is no memory for the picture")?;
    let url = Url::create_object_url_with_blob(&source).map_err(failed)?;
    let drawn = async {
        let image = HtmlImageElement::new().map_err(failed)?;
        image.set_src(&url);
        JsFuture::from(image.decode()).await.map_err(failed)?;
        let canvas: HtmlCanvasElement = document()
            .create_element("canvas")
            .map_err(failed)?
            .unchecked_into();
        canvas.set_width((width * scale) as u32);
        canvas.set_height((height * scale) as u32);
        let context: CanvasRenderingContext2d = canvas
            .get_context("2d")
            .map_err(failed)?
            .ok_or("this browser draws no pictures")?
            .unchecked_into();
        context
            .draw_image_with_html_image_element_and_dw_and_dh(
                &image,
                0.0,
                0.0,
                width * scale,
                height * scale,
            )
            .map_err(failed)?;
        let made = js_sys::Promise::new(&mut |done, _| {
            // Fails only on a canvas that was spoilt by a foreign picture; this one is our own.
            let _ = canvas.to_blob(&done);
        });
        JsFuture::from(made)
            .await
            .map_err(failed)?
            .dyn_into::<Blob>()
            .map_err(failed)
    };
    let result = drawn.await;
    let _ = Url::revoke_object_url(&url);
    result
}

/// A file name from a title.
pub fn name(title: &str, extension: &str) -> String {
    let mut name = String::new();
    for c in title.to_lowercase().chars() {
        if c.is_ascii_alphanumeric() {
            name.push(c);
        } else if !name.is_empty() && !name.ends_with('-') {
            name.push('-');
        }
    }
    let stem = name.trim_matches('-').chars().take(60).collect::<String>();
    let stem = if stem.is_empty() { "comparison" } else { &stem };
    format!("agenticml-{stem}.{extension}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain() {
        assert_eq!(
            name("Lines in main.py", "svg"),
            "agenticml-lines-in-main-py.svg"
        );
        assert_eq!(name("../\u{202e}日本", "png"), "agenticml-comparison.png");
    }
}
