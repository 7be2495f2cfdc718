//! Names, labels and field errors as the API server checks them.
