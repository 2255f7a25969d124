/** Base64 of the text's UTF-8. @param {string} text */
export const base64 = (text) => btoa(String.fromCharCode(...new TextEncoder().encode(text)));
