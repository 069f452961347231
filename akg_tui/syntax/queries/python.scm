; A later pattern overrides an earlier one. `builtin` colours a name of `BUILTINS` as a type.
(comment) @comment
(string) @string
(interpolation) @text
[(integer) (float)] @number
[(true) (false) (none)] @keyword
(call function: (identifier) @function)
(call function: (attribute attribute: (identifier) @function))
(identifier) @builtin
(keyword_argument name: (identifier) @text)
(attribute attribute: (identifier) @text)
(call function: (attribute attribute: (identifier) @function))
(type (identifier) @type)
(type (attribute) @type)
(class_definition name: (identifier) @type)
(function_definition name: (identifier) @function)
(decorator "@" @function)
(decorator (identifier) @function)
(decorator (attribute) @function)
(decorator (attribute attribute: (identifier) @function))
(module . (expression_statement . (string) @comment .))
(module . (comment) . (expression_statement . (string) @comment .))
(block . (expression_statement . (string) @comment .))
