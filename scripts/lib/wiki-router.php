<?php
// For `php -S`: /wiki/TITLE is index.php's, as a web server's rewrite rule would have it.
if (str_starts_with($_SERVER['REQUEST_URI'], '/wiki/')) {
    $_SERVER['SCRIPT_NAME'] = '/index.php';
    require $_SERVER['DOCUMENT_ROOT'] . '/index.php';
    return true;
}
return false;
