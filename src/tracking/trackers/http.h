// Requests to an HTTP server, by libcurl. Each ends within its time limit, whatever the server does.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace trainctl::tracking {

struct HttpResponse {
  long status = 0;
  std::string body;
};

struct HttpOptions {
  std::string user;  // of HTTP's basic authentication; "" for none
  std::string password;
  std::string bearer_token;  // "" for none
  std::string ca_file;       // certificates that are trusted; "" for the system's
  bool verifies_certificate = true;
  std::chrono::milliseconds connect_limit{5000};
  std::chrono::milliseconds limit{30000};
};

class HttpClient {
 public:
  explicit HttpClient(HttpOptions options);
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;
  ~HttpClient();

  /// Sends a request and waits for the response. Throws an Error if there is none: the message has the address, and
  /// never a password or token.
  HttpResponse get(const std::string& url);
  HttpResponse post_json(const std::string& url, const std::string& body);

 private:
  struct Session;
  HttpResponse send(const std::string& url, const std::string* body);

  HttpOptions options_;
  std::unique_ptr<Session> session_;
};

/// Returns a text as part of an address: "a b" is "a%20b".
std::string percent_encoded(const std::string& text);

}  // namespace trainctl::tracking
