; Also for CUDA. A later pattern overrides an earlier one.
(comment) @comment
[(string_literal) (raw_string_literal) (char_literal) (system_lib_string)] @string
(number_literal) @number
[(true) (false) (this) (null)] @keyword
[(primitive_type) (sized_type_specifier) (type_identifier) (auto)] @type
["long" "short" "signed" "unsigned"] @type
(preproc_directive) @preproc
(preproc_arg) @preproc
(preproc_def name: (identifier) @preproc)
(preproc_function_def name: (identifier) @preproc)
(call_expression function: (identifier) @function)
(call_expression function: (field_expression field: (field_identifier) @function))
(call_expression function: (qualified_identifier name: (identifier) @function))
(template_function name: (identifier) @function)
(function_declarator declarator: (identifier) @function)
(function_declarator declarator: (field_identifier) @function)
(function_declarator declarator: (qualified_identifier name: (identifier) @function))
