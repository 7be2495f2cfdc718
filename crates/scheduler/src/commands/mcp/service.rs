//! The service: which tools there are, and what calling one gives.

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData,
    Implementation, ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use serde_json::Value;

use super::desk::{Desk, DeskAnswer};
use super::tools;

/// Answers a client.
pub(super) struct Service(Desk);

impl Service {
    pub(super) const fn new(desk: Desk) -> Self {
        Self(desk)
    }
}

impl ServerHandler for Service {
    fn get_info(&self) -> ServerConfig {
        let program = Implementation::new("kube-scheduler-rs", env!("CARGO_PKG_VERSION"));
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(program)
            .with_instructions(tools::INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::all()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(kind) = tools::kind(&request.name) else {
            let known: Vec<_> = tools::all().into_iter().map(|tool| tool.name).collect();
            let text =
                format!("there is no tool {:?}; there are: {}", request.name, known.join(", "));
            return Err(ErrorData::invalid_params(text, None));
        };
        let arguments = request.arguments.map_or(Value::Null, Value::Object);
        let cancelled = context.ct.clone();
        let result = tokio::select! {
            result = self.0.answer(kind, arguments) => result,
            () = cancelled.cancelled() => {
                return Err(ErrorData::internal_error("the question was cancelled", None));
            }
        };
        // What is wrong with a question, its client can see and mend.
        let result = match result {
            Ok(DeskAnswer { answer, remarks }) => {
                let mut content = vec![ContentBlock::text(answer.to_string())];
                content.push(ContentBlock::text(remarks.join("\n")));
                let mut result = CallToolResult::success(content);
                result.structured_content = Some(answer);
                result
            }
            Err(error) => {
                CallToolResult::error(vec![ContentBlock::text(format!("error: {error:#}"))])
            }
        };
        Ok(result.into())
    }
}
